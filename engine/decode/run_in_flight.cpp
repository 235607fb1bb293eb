#include "engine/decode/run_in_flight.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/core/record/assemble.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/decode/dense_teacher.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/output_error.h"
#include "engine/model/place.h"
#include "engine/model/weights.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {
namespace {

constexpr int kOracleStride = 16;  // new tokens between two looks at recall

/// A sum is made of the mean.
bool by_mean_alone(const OracleSpec& spec) {
  return spec.weight == OracleWeight::mass && (spec.mass == OracleMass::mean || spec.mass == OracleMass::sum);
}

}  // namespace

RunStarted started_facts(const Generation& run) {
  BytePool pieces;
  for (const std::int32_t id : run.ids()) {
    const bool first = pieces.size() == 0 && run.model().has_tokenizer();
    pieces.push_back(first ? run.model().tokenizer().first_piece(id) : run.piece(id));
  }
  return {.head = {.n_positions = run.n_positions(),
                   .chunk = run.request().chunk,
                   .page_size = kPageSize,
                   .policy = run.request().policy,
                   .scorer = run.scorer_info(),
                   .oracle = run.request().oracle_spec,
                   .heads = run.heads()},
          .ids = run.ids(),
          .pieces = std::move(pieces)};
}

RunInFlight::RunInFlight(const LoadedModel& model, const RunRequest& request, RunSink sink)
    : sink_(std::move(sink)), run_(model, request, sink_.hooks) {
  run_.set_recording(sink_.records);
  if (request.output_error) check_measurable(run_.request().policy);
  if (wants_oracle() || request.output_error) {
    record_.model = model.info();
    begin_run(record_, started_facts(run_));
  }
  if (sink_.started) sink_.started(started_facts(run_));
}

/// Memory goes back to the stream that it was made for, which may not be this thread's: the next run may get it at once.
RunInFlight::~RunInFlight() {
  try {
    wait_for_device();
  } catch (...) {  // the device is lost
  }
}

void RunInFlight::tell(StepFacts facts) {
  if (record_.n_positions > 0) follow(record_, facts);
  if (sink_.step) sink_.step(std::move(facts));
}

void RunInFlight::prefill() {
  if (run_.request().chunk > 0) tell_changes_of_text();
  try {
    tell(run_.prefill(sink_.hooks,
                      {.logprobs = sink_.prompt_logprobs, .greedy = sink_.greedy, .leaves_decisions = true}));
  } catch (const Error& error) {
    if (error.code() != ExitCode::cancelled) throw;
    is_cancelled_ = true;
  }
}

bool RunInFlight::begin_step() {
  if (is_cancelled_ || run_.finished()) return false;
  is_cancelled_ = sink_.hooks.is_cancelled();
  if (is_cancelled_) return false;
  change_policy();
  if (sink_.greedy != nullptr) sink_.greedy->push_back(run_.likeliest());
  return true;
}

void RunInFlight::end_step(StepFacts facts) {
  tell(std::move(facts));
  if (!run_.finished() && look_is_due()) is_cancelled_ = !look(false, sink_.hooks);
}

RunEnded RunInFlight::finish() {
  const auto start = std::chrono::steady_clock::now();
  bool is_complete = !is_cancelled_;
  try {
    if (is_complete && wants_oracle()) is_complete = look(true, sink_.hooks);
    // A user who stops a run wants to know what was kept until then: kOracleStride tokens at most are left to read. A
    // teacher that has not looked yet would have to read the prompt first, which takes too long.
    if (!is_complete && has_looked_) look(true, {});
    wait_for_device();  // a pass that was cancelled may still read and write what goes now
    teacher_.reset();   // its keys and values make room for those of the next pass
    if (is_complete && run_.request().output_error) {
      OutputErrorFacts facts = measure_output_error(run_.model(), record_, sink_.hooks);
      if (sink_.output_error) sink_.output_error(std::move(facts));
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::cancelled) throw;
    is_complete = false;
  }
  const RunStatus status = is_complete ? RunStatus::complete : RunStatus::cancelled;
  return {status, run_.timings(), run_.answer(), seconds_since(start)};
}

void RunInFlight::wait_for_device() const {
  const kernels::Place place = ops::place_of(run_.model().weights().device);
  if (place.is_cuda()) kernels::wait_for(place.stream);
}

/// Changes that happen within a text that is read in chunks: each holds from the first query of the chunk after it.
/// They are reported before the text's facts, which are one.
void RunInFlight::tell_changes_of_text() const {
  const RunRequest& request = run_.request();
  for (const PolicyChange& change : request.changes) {
    const int q = (change.q + request.chunk - 1) / request.chunk * request.chunk;
    if (q < run_.prompt_len() && sink_.policy_changed) sink_.policy_changed({q, change.policy});
  }
}

/// Changes that the request planned, and those that are asked for while the run goes on.
void RunInFlight::change_policy() {
  for (const PolicyChange& change : run_.request().changes) {
    // The prompt goes through under one policy: what was planned within it holds after it.
    if (std::max(change.q, run_.prompt_len()) == static_cast<int>(run_.ids().size())) change_policy(change.policy);
  }
  if (!sink_.next_policy) return;
  while (const std::optional<std::string> text = sink_.next_policy()) {
    try {
      change_policy(PolicySpec::parse(*text));
    } catch (const Error& error) {
      if (sink_.log) sink_.log(error.what());
    }
  }
}

/// Lifetimes that end by it are reported at once.
void RunInFlight::change_policy(const PolicySpec& policy) {
  StepFacts facts;
  run_.change_policy(policy, &facts);
  facts.n_tokens = facts.logprobs_from = static_cast<int>(run_.ids().size());
  if (sink_.policy_changed) sink_.policy_changed({facts.n_tokens, run_.request().policy});
  if (!facts.lifetimes.empty()) tell(std::move(facts));
}

/// First after the first new token: a user waits for that, and the teacher reads a prompt as long as the model did.
bool RunInFlight::look_is_due() const {
  if (!wants_oracle() || !run_.request().oracle_looks) return false;
  return !teacher_ || static_cast<int>(run_.ids().size()) >= teacher_->horizon() + kOracleStride;
}

/// Lets the teacher read what is new, and reports what it saw; false if the run is cancelled.
bool RunInFlight::look(bool final, const Hooks& hooks) {
  const RunRequest& request = run_.request();
  if (!teacher_) {
    const int window = request.policy.geometry(run_.n_positions()).window;
    teacher_ = std::make_unique<DenseTeacher>(run_.model(), run_.n_positions(), window, request.oracle_spec);
  }
  const std::span<const std::int32_t> ids(run_.ids());
  const auto seen = static_cast<std::size_t>(teacher_->horizon());
  if (!teacher_->absorb(ids.subspan(seen), hooks.cancelled, &record_.evict_at)) return false;
  has_looked_ = true;
  sink_.oracle(oracle_facts(final));
  return true;
}

OracleFacts RunInFlight::oracle_facts(bool final) {
  OracleFacts out{.horizon = teacher_->horizon(), .final = final};
  // On the way only recall is reported: where that goes by the mean, the other kinds stay on the device.
  if (final || !by_mean_alone(record_.oracle)) {
    FutureAttention seen = teacher_->future();
    record_.future_mass = std::move(seen.mass);
    record_.future = std::move(seen.kinds);
  } else {
    record_.future_mass = teacher_->future_mass();
  }
  record_.oracle_horizon = out.horizon;
  out.recall = head_metric(record_, Metric::recall, out.horizon - 1).values;
  if (!final) return out;
  out.future_mass = std::move(record_.future_mass);
  out.future = std::move(record_.future);
  return out;
}

}  // namespace kvscope::engine
