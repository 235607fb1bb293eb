#include "engine/core/record/assemble.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/core/record/check.h"

namespace kvscope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// The record has the new tokens.
void end_lifetimes(RunRecord& run, const StepFacts& facts) {
  run.n_queries = facts.n_tokens;
  if (!facts.ids.empty()) run.evict_at.resize(run.ids.size(), kUndecided);
  for (const auto& l : facts.lifetimes) run.evict_at.row(l.layer, l.kv_head)[l.token] = l.evict_at;
}

}  // namespace

void begin_run(RunRecord& run, RunStarted started) {
  check_started(run, started);
  static_cast<RunHead&>(run) = std::move(started.head);
  run.prompt_len = static_cast<int>(started.ids.size());
  if (run.scorer.text.empty()) run.scorer = {.text = run.model.scorer};  // a run without scores says what there is
  run.ids = std::move(started.ids);
  run.pieces = std::move(started.pieces);
  run.logprobs.clear();
  run.evict_at = LifetimeMap(run.model.n_layers, run.model.n_kv_heads);
  run.evict_at.resize(run.ids.size(), kUndecided);
  run.scores = HeadSeries<float>(run.model.n_layers, run.model.n_kv_heads);
  run.contests.clear();
  run.reads.clear();
  run.changes.clear();
  run.future_mass = HeadSeries<float>();
  run.future = FutureKinds();
  run.oracle_horizon = 0;
  run.recall_so_far.clear();
  run.output_error = OutputError();
  run.n_queries = 0;
  run.timings = RunTimings();
  run.status = RunStatus::running;
  run.message.clear();
}

void follow(RunRecord& run, const StepFacts& facts) {
  run.ids.insert(run.ids.end(), facts.ids.begin(), facts.ids.end());
  end_lifetimes(run, facts);
  for (const HeadDecisions& head : facts.decisions) {
    std::vector<std::int32_t>& row = run.evict_at.row(head.layer, head.kv_head);
    for (const TokenEviction& gone : head.evictions) row[static_cast<std::size_t>(gone.token)] = gone.evict_at;
  }
  run.reads.insert(run.reads.end(), facts.reads.begin(), facts.reads.end());
  if (!facts.heads.empty()) run.heads = facts.heads;
}

void apply(RunRecord& run, StepFacts facts) {
  spread(facts);
  check_step(run, facts);
  if (!facts.ids.empty()) {
    run.timings.decode_s += facts.seconds;
    ++run.timings.decode_steps;
  } else if (run.n_queries == 0) {
    run.timings.prefill_s = facts.seconds;
  }
  append(run.ids, facts.ids);
  for (std::size_t i = 0; i < facts.pieces.size(); ++i) run.pieces.push_back(facts.pieces[i]);
  end_lifetimes(run, facts);
  const std::size_t logprobs_end = facts.logprobs_from + facts.logprobs.size();
  if (run.logprobs.size() < logprobs_end) run.logprobs.resize(logprobs_end, kNaN);
  std::copy(facts.logprobs.begin(), facts.logprobs.end(), run.logprobs.begin() + facts.logprobs_from);
  for (const auto& score : facts.scores) {
    std::vector<float>& row = run.scores.row(score.layer, score.kv_head);
    if (row.size() <= static_cast<std::size_t>(score.token)) row.resize(score.token + 1, kNaN);
    row[score.token] = score.value;
  }
  append(run.contests, facts.contests);
  append(run.reads, facts.reads);
  if (!facts.heads.empty()) run.heads = std::move(facts.heads);
}

void apply(RunRecord& run, OracleFacts facts) {
  check_oracle(run, facts);
  run.oracle_horizon = facts.horizon;
  if (!facts.final) {
    run.recall_so_far = std::move(facts.recall);
    return;
  }
  run.future_mass = std::move(facts.future_mass);
  run.future = std::move(facts.future);
  run.recall_so_far.clear();
}

void apply(RunRecord& run, OutputErrorFacts facts) {
  check_output_error(run, facts);
  run.output_error = std::move(facts.error);
}

void apply(RunRecord& run, PolicyChange change) {
  check_change(run, change);
  run.changes.push_back(std::move(change));
}

void end_run(RunRecord& run, const RunEnded& ended) {
  check_ended(run);
  run.timings = ended.timings;
  finish_run(run, ended.status);
  check_run(run);
}

}  // namespace kvscope
