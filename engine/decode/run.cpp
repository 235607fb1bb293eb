#include "engine/decode/run.h"

#include <algorithm>

#include "engine/core/record/assemble.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/decode/dense_teacher.h"
#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/output_error.h"

namespace kvscope::engine {
namespace {

constexpr int kOracleStride = 16;  // new tokens between two looks at recall so far

/// A sum is made of the mean.
bool by_mean_alone(const OracleSpec& spec) {
  return spec.weight == OracleWeight::mass && (spec.mass == OracleMass::mean || spec.mass == OracleMass::sum);
}

/// The teacher beside a run, and the record that recall is counted on.
class Oracle {
 public:
  explicit Oracle(const Generation& run)
      : run_(run),
        teacher_(run.model(), run.n_positions(), run.request().policy.geometry(run.n_positions()).window,
                 run.request().oracle_spec) {
    record_.model = run.model().info();
    begin_run(record_, started_facts(run));
  }

  void take(const StepFacts& facts) { apply(record_, facts); }
  /// First behind the first new token: that is waited for, and the teacher reads a prompt as long as the model did.
  bool is_due() const {
    return teacher_.horizon() == 0 || static_cast<int>(run_.ids().size()) >= teacher_.horizon() + kOracleStride;
  }

  /// Lets the teacher read what is new; false if it was told to stop.
  bool catch_up(const Hooks& hooks) {
    const std::span<const std::int32_t> ids(run_.ids());
    return teacher_.absorb(ids.subspan(static_cast<std::size_t>(teacher_.horizon())), hooks.cancelled,
                           &record_.evict_at);
  }

  bool has_looked() const { return has_looked_; }
  OracleFacts facts(bool final) {
    has_looked_ = true;
    OracleFacts out{.horizon = teacher_.horizon(), .final = final};
    // On the way only recall is told: where that goes by the mean, the other kinds stay on the device.
    if (final || !by_mean_alone(record_.oracle)) {
      FutureAttention seen = teacher_.future();
      record_.future_mass = std::move(seen.mass);
      record_.future = std::move(seen.kinds);
    } else {
      record_.future_mass = teacher_.future_mass();
    }
    record_.oracle_horizon = out.horizon;
    out.recall = head_metric(record_, Metric::recall, out.horizon - 1).values;
    if (!final) return out;
    out.future_mass = std::move(record_.future_mass);
    out.future = std::move(record_.future);
    return out;
  }

 private:
  const Generation& run_;
  DenseTeacher teacher_;
  RunRecord record_;
  bool has_looked_ = false;
};

/// A run whose lifetimes and reads are kept, to be followed when it has ended.
class WatchedRun {
 public:
  WatchedRun(const Generation& run, const RunSink& outer) : model_(run.model()), outer_(outer), sink_(outer) {
    check_measurable(run.request().policy);
    record_.model = model_.info();
    begin_run(record_, started_facts(run));
    sink_.step = [this](const StepFacts& facts) {
      apply(record_, facts);
      if (outer_.step) outer_.step(facts);
    };
  }
  WatchedRun(const WatchedRun&) = delete;

  const RunSink& sink() const { return sink_; }
  void tell_output_error() const {
    OutputErrorFacts facts = measure_output_error(model_, record_, outer_.hooks);
    if (outer_.output_error) outer_.output_error(std::move(facts));
  }

 private:
  const LoadedModel& model_;
  const RunSink& outer_;
  RunSink sink_;
  RunRecord record_;
};

/// Takes over other parameters, if somebody asks for them. Lifetimes that end by it are told at once.
void change_policy(Generation& run, const PolicySpec& policy, const RunSink& sink,
                   const std::function<void(const StepFacts&)>& tell) {
  StepFacts facts;
  run.change_policy(policy, &facts);
  facts.n_tokens = facts.logprobs_from = static_cast<int>(run.ids().size());
  if (sink.policy_changed) sink.policy_changed({facts.n_tokens, run.request().policy});
  if (!facts.lifetimes.empty()) tell(facts);
}

/// Changes that the request planned, and those that somebody asks for while the run goes on.
void change_policy(Generation& run, const RunSink& sink, const std::function<void(const StepFacts&)>& tell) {
  for (const PolicyChange& change : run.request().changes) {
    // The prompt goes through under one policy: what was planned within it holds behind it.
    if (std::max(change.q, run.prompt_len()) == static_cast<int>(run.ids().size())) {
      change_policy(run, change.policy, sink, tell);
    }
  }
  if (!sink.next_policy) return;
  while (const std::optional<std::string> text = sink.next_policy()) {
    try {
      change_policy(run, PolicySpec::parse(*text), sink, tell);
    } catch (const Error& error) {
      if (sink.log) sink.log(error.what());
    }
  }
}

/// Changes that happen within a text that is read in chunks: each holds from the first query of the chunk behind it. They
/// are told before the text's facts, which are one.
void tell_changes_of_text(const RunRequest& request, int prompt_len, const RunSink& sink) {
  for (const PolicyChange& change : request.changes) {
    const int q = (change.q + request.chunk - 1) / request.chunk * request.chunk;
    if (q < prompt_len && sink.policy_changed) sink.policy_changed({q, change.policy});
  }
}

/// Tokens of the answer that are there.
std::size_t n_answered(const Generation& run) { return run.ids().size() - static_cast<std::size_t>(run.prompt_len()); }

/// Whether the next token is given, and not drawn.
bool is_given(const Generation& run) {
  const auto& answer = run.request().answer_ids;
  return answer && n_answered(run) < answer->size();
}

bool is_over(const Generation& run) { return !is_given(run) && (!run.request().draws() || run.finished()); }

StepFacts next_step(Generation& run) {
  if (!is_given(run)) return run.step();
  const std::int32_t id = (*run.request().answer_ids)[n_answered(run)];
  return run.request().draws() ? run.step_as_drawn(id) : run.step_forced(id);
}

/// The run's loop. Throws Error (cancelled) when the prefill was cut short.
bool decode_all(Generation& run, Oracle* oracle, const RunSink& sink) {
  const auto tell = [&](const StepFacts& facts) {
    if (oracle != nullptr) oracle->take(facts);
    if (sink.step) sink.step(facts);
  };
  const auto look = [&](bool final) {
    if (!oracle->catch_up(sink.hooks)) return false;
    if (sink.oracle) sink.oracle(oracle->facts(final));
    return true;
  };
  // Whoever stops a run wants to know what was kept until then: kOracleStride tokens at most are left to read. A teacher that
  // has not read the prompt would keep him waiting.
  const auto stop = [&] {
    if (oracle != nullptr && oracle->has_looked() && oracle->catch_up({}) && sink.oracle)
      sink.oracle(oracle->facts(true));
    return false;
  };
  if (run.request().chunk > 0) tell_changes_of_text(run.request(), run.prompt_len(), sink);
  tell(run.prefill(sink.hooks, {.logprobs = sink.prompt_logprobs, .greedy = sink.greedy}));
  while (!is_over(run)) {
    if (sink.hooks.is_cancelled()) return stop();
    change_policy(run, sink, tell);
    if (sink.greedy != nullptr) sink.greedy->push_back(run.likeliest());
    tell(next_step(run));
    if (oracle != nullptr && !is_over(run) && oracle->is_due() && !look(false)) return stop();
  }
  return oracle == nullptr || look(true) || stop();
}

}  // namespace

PolicySpec resolved_policy(const PolicySpec& policy, const LoadedModel& model) {
  return ActivePolicy::resolved(policy, model);
}

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

RunEnded execute_run(const LoadedModel& model, const RunRequest& request, const RunSink& sink) {
  Generation run(model, request, sink.hooks);
  const std::unique_ptr<WatchedRun> watched = request.output_error ? std::make_unique<WatchedRun>(run, sink) : nullptr;
  if (sink.started) sink.started(started_facts(run));
  std::unique_ptr<Oracle> oracle = request.oracle ? std::make_unique<Oracle>(run) : nullptr;
  bool complete = false;
  try {
    const bool decoded = decode_all(run, oracle.get(), watched != nullptr ? watched->sink() : sink);
    oracle.reset();  // its keys and values make room for those of the next pass
    if (decoded && watched != nullptr) watched->tell_output_error();
    complete = decoded;
  } catch (const Error& error) {
    if (error.code() != ExitCode::cancelled) throw;
  }
  return {complete ? RunStatus::complete : RunStatus::cancelled, run.timings(), run.answer()};
}

RunRecord record_run(const LoadedModel& model, const RunRequest& request, const Hooks& hooks, bool prompt_logprobs) {
  RunRecord record;
  record.model = model.info();
  record.sampling = request.sampling;
  record.prompt_text = request.prompt;
  record.started_utc = utc_now();
  RunSink sink;
  sink.prompt_logprobs = prompt_logprobs;
  sink.hooks = hooks;
  sink.started = [&](RunStarted started) { begin_run(record, std::move(started)); };
  sink.step = [&](const StepFacts& facts) { apply(record, facts); };
  sink.oracle = [&](OracleFacts facts) { apply(record, std::move(facts)); };
  sink.output_error = [&](OutputErrorFacts facts) { apply(record, std::move(facts)); };
  sink.policy_changed = [&](const PolicyChange& change) { apply(record, change); };
  end_run(record, execute_run(model, request, sink));
  return record;
}

}  // namespace kvscope::engine
