#include "engine/core/study/heads/head_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "engine/core/policy/policy.h"
#include "engine/core/study/heads/head_question.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {

namespace {

/// Long-range entries of one head that are still there at the run's last query.
std::int64_t retained_long_range(const RunRecord& run, int layer, int kv_head) {
  if (run.is_local_by_model(layer, kv_head)) return 0;
  const auto& row = run.evict_at.row(layer, kv_head);
  const int q = run.queries() - 1;
  const int end = std::min(static_cast<int>(row.size()), q - run.geometry().window + 1);
  return std::count_if(row.begin(), row.begin() + std::max(0, end),
                       [q](std::int32_t evict_at) { return q < evict_at; });
}

/// [n_layers * n_kv_heads] over all runs. Throws Error unless all are of one shape.
std::vector<std::int64_t> retained_by_head(const std::vector<const RunRecord*>& runs, const HeadsOfModel& heads) {
  std::vector<std::int64_t> retained(static_cast<std::size_t>(heads.n_heads()), 0);
  for (const RunRecord* run : runs) {
    if (run->evict_at.n_layers() != heads.n_layers || run->evict_at.n_kv_heads() != heads.n_kv_heads)
      throw Error({.found = "a run with " + std::to_string(run->evict_at.n_layers()) + " x " +
                            std::to_string(run->evict_at.n_kv_heads()) + " heads",
                   .expected = std::to_string(heads.n_layers) + " x " + std::to_string(heads.n_kv_heads) +
                               " (layers x KV heads), as in the first run"});
    for (int i = 0; i < heads.n_heads(); ++i)
      retained[static_cast<std::size_t>(i)] += retained_long_range(*run, i / heads.n_kv_heads, i % heads.n_kv_heads);
  }
  return retained;
}

/// Heads in the order of what they retain as numbers that a float holds exactly, equal for equal ones.
std::vector<float> ranks(const std::vector<std::int64_t>& retained) {
  const std::set<std::int64_t> values(retained.begin(), retained.end());
  std::vector<float> result;
  for (const std::int64_t value : retained)
    result.push_back(static_cast<float>(std::distance(values.begin(), values.find(value))));
  return result;
}

std::string policies_of(const std::vector<const RunRecord*>& runs) {
  std::set<std::string> texts;
  for (const RunRecord* run : runs) texts.insert(run->policy.to_string());
  return *texts.begin() + (texts.size() > 1 ? " and " + std::to_string(texts.size() - 1) + " more" : "");
}

/// Policies whose heads keep what their scores are worth, each as many as it likes.
std::string policies_that_differ() {
  std::string names;
  for (const PolicyInfo& info : policy_list()) {
    if (info.needs_scorer && !info.has_budget) names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names;
}

[[noreturn]] void refuse_equal(const std::vector<const RunRecord*>& runs, std::int64_t retained) {
  throw NoRanking({.file = "heads",
                   .found = retained == 0 ? "no head keeps a token outside its window, under " + policies_of(runs)
                                          : "every head keeps the same number of tokens, " + std::to_string(retained) +
                                                " outside the window, under " + policies_of(runs),
                   .expected = "runs of a policy whose heads differ (" + policies_that_differ() +
                               ") that are longer than its window; otherwise all heads tie",
                   .hint = "or choose strategy a, b or c, which do not need density"},
                  retained);
}

std::vector<std::string> scorers_cut_at_one_threshold(const std::vector<const RunRecord*>& runs) {
  std::set<std::string> kinds;
  for (const RunRecord* run : runs) {
    const RetentionPlan plan = policy_of(run->policy).plan(run->policy, run->geometry());
    if (plan.source == ScoreSource::gate && plan.admission == Admission::threshold) kinds.insert(run->scorer.kind);
  }
  return {kinds.begin(), kinds.end()};
}

bool asks_for_nothing(const HeadQuestion& question) {
  return !question.strategy && !question.share && !question.count && !question.seed;
}

/// The heads that all runs had local in common; empty if they were no hybrids, or of different heads.
std::vector<std::uint8_t> heads_of_runs(const std::vector<const RunRecord*>& runs) {
  std::vector<std::uint8_t> local = runs[0]->local_heads();
  const bool common =
      std::all_of(runs.begin(), runs.end(), [&](const RunRecord* r) { return r->local_heads() == local; });
  return common ? local : std::vector<std::uint8_t>();
}

}  // namespace

std::string NoRanking::sentence() const {
  const std::string kept = retained_ == 0   ? "No head keeps a token outside its window here"
                           : retained_ == 1 ? "All heads keep 1 token here"
                                            : "All heads keep " + std::to_string(retained_) + " tokens here";
  return kept + ", so there is no ranking. Use a gated run, or strategies A to C on the board.";
}

int HeadSelection::n_selected() const {
  return static_cast<int>(std::count_if(full.begin(), full.end(), [](float value) { return value >= 0.5f; }));
}

std::vector<std::int64_t> long_range_entries(const std::vector<const RunRecord*>& runs) {
  if (runs.empty()) throw Error({.code = ExitCode::usage, .found = "no runs to choose heads from"});
  return retained_by_head(runs, {.n_layers = runs[0]->model.n_layers, .n_kv_heads = runs[0]->model.n_kv_heads});
}

double coverage_of(const std::vector<std::int64_t>& entries, const std::vector<std::uint8_t>& local) {
  std::int64_t chosen = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) chosen += local.at(i) == 0 ? entries[i] : 0;
  const auto all = std::accumulate(entries.begin(), entries.end(), std::int64_t{0});
  return all > 0 ? static_cast<double>(chosen) / static_cast<double>(all) : std::numeric_limits<double>::quiet_NaN();
}

HeadSelection choose_heads(const std::vector<const RunRecord*>& runs, const HeadQuestion& question) {
  return choose_heads(runs, long_range_entries(runs), question);
}

HeadSelection choose_heads(const std::vector<const RunRecord*>& runs, const std::vector<std::int64_t>& retained,
                           const HeadQuestion& question) {
  HeadsOfModel heads{.n_layers = runs.at(0)->model.n_layers, .n_kv_heads = runs.at(0)->model.n_kv_heads};
  heads.alpha = ranks(retained);

  const HeadStrategy strategy = question.strategy.value_or(HeadStrategy::d);
  HeadSelection selection{.n_layers = heads.n_layers,
                          .n_kv_heads = heads.n_kv_heads,
                          .rule = std::string(kHeadStrategies[static_cast<std::size_t>(strategy)])};
  std::vector<std::uint8_t> local;
  if (asks_for_nothing(question)) local = heads_of_runs(runs);
  if (!local.empty()) {
    selection.rule = "run";
  } else {
    const int n_global = n_global_heads(strategy, heads, question);
    const bool chooses = strategy == HeadStrategy::d && n_global > 0 && n_global < heads.n_heads();
    if (chooses && *std::max_element(heads.alpha.begin(), heads.alpha.end()) == 0) refuse_equal(runs, retained[0]);
    local = local_heads_by(strategy, heads, n_global, question.seed.value_or(0));
  }
  for (const std::uint8_t is_local : local) selection.full.push_back(is_local != 0 ? 0.0f : 1.0f);
  if (selection.rule == "d") {
    note_ties(selection, retained);
    selection.thresholded = scorers_cut_at_one_threshold(runs);
  }
  selection.coverage = coverage_of(retained, local);
  return selection;
}

std::string describe_count(const HeadSelection& selection) {
  const int n_selected = selection.n_selected(), n_heads = selection.n_heads();
  return std::to_string(n_selected) + " of " + std::to_string(n_heads) + " heads global, share " +
         number_text(static_cast<double>(n_selected) / n_heads, 3);
}

std::string describe(const HeadSelection& selection, bool brief) {
  if (std::isnan(selection.coverage)) return describe_count(selection) + ", no long-range entry was kept";
  return describe_count(selection) + ", coverage " + fixed_text(100 * selection.coverage, 2) + " %" +
         (brief ? "" : " of the kept long-range entries");
}

HybridBytes hybrid_bytes(const ModelInfo& model, const std::vector<std::uint8_t>& local, const LocalSizes& sizes,
                         std::int64_t context) {
  const std::int64_t token = model.bytes_of_token();
  const std::int64_t local_tokens = std::min<std::int64_t>(context, std::int64_t{sizes.n_sink} + sizes.window);
  HybridBytes total;
  for (const std::uint8_t is_local : local) {
    total.bytes += token * (is_local != 0 ? local_tokens : context);
    total.dense += token * context;
  }
  return total;
}

LocalSizes local_sizes(const std::vector<const RunRecord*>& runs, std::optional<int> n_sink,
                       std::optional<int> window) {
  if (runs.empty()) throw Error({.code = ExitCode::usage, .found = "no runs to take sinks and window from"});
  const RetentionGeometry first = runs[0]->geometry();
  for (const RunRecord* run : runs) {
    const RetentionGeometry geometry = run->geometry();
    const bool other_sinks = !n_sink && geometry.n_sink != first.n_sink;
    if (other_sinks || (!window && geometry.window != first.window)) {
      refuse_question(
          other_sinks ? "sinks" : "window",
          "runs of different sinks or windows, " + runs[0]->policy.to_string() + " and " + run->policy.to_string(),
          "a number for the local heads");
    }
  }
  return {n_sink.value_or(first.n_sink), window.value_or(first.window)};
}

}  // namespace kvscope
