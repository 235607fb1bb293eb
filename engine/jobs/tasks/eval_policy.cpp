#include "engine/jobs/tasks/eval_policy.h"

#include "engine/core/policy/policy.h"
#include "engine/core/study/oracle.h"
#include "engine/decode/dense_teacher.h"
#include "engine/decode/run.h"
#include "engine/jobs/tasks/scored_decoding.h"

namespace kvscope::engine {
namespace {

RunRequest request_of(const PolicySpec& policy, std::vector<std::int32_t> prompt, int max_tokens) {
  RunRequest request;
  request.prompt_ids = std::move(prompt);
  request.policy = policy;
  request.max_tokens = max_tokens;
  request.oracle = false;
  request.stop_at_eos = false;
  return request;
}

/// The positions of a sequence that a model sees: all but the last token.
std::vector<std::int32_t> visible_ids(const TaskSequence& sequence) {
  return {sequence.ids.begin(), sequence.ids.end() - 1};
}

bool answers_by_policy(const LoadedModel& model, const PolicySpec& policy, const TaskSequence& sequence,
                       const AnswerSpan& span, const Hooks& hooks) {
  const auto begin = sequence.ids.begin() + span.begin;
  Generation run(model, request_of(policy, {sequence.ids.begin(), begin}, span.end - span.begin));
  run.prefill(hooks, {.logprobs = false});
  for (auto expected = begin; expected != sequence.ids.begin() + span.end; ++expected) {
    run.step();
    if (run.ids().back() != *expected) return false;
  }
  return true;
}

}  // namespace

EvalPolicy EvalPolicy::parse(const std::string& text, int length, const LoadedModel* model) {
  const std::string name = text.substr(0, text.find(':'));
  EvalPolicy policy;
  if (name == "random") policy.kind = EvalKind::random;
  if (name == "oracle") policy.kind = EvalKind::oracle;
  policy.spec = PolicySpec::parse(policy.kind == EvalKind::policy ? text : "kvpop" + text.substr(name.size()));
  policy.title = name;
  if (model != nullptr) policy.spec = resolved_policy(policy.spec, *model);
  // A share is of the sequence, not of each question's shorter prompt.
  if (policy.spec.budget) {
    policy.spec.budget = BudgetSpec{BudgetSpec::Kind::tokens, static_cast<double>(policy.spec.budget_tokens(length))};
  }
  // A budget below sinks and window is an error here, not in the middle of the work.
  const int budget = policy.spec.geometry(length).budget();
  policy.budget = budget < length ? budget : 0;
  return policy;
}

LifetimeMap prepare_sequence(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
                             std::uint64_t seed) {
  if (policy.kind == EvalKind::policy) return {};
  const std::vector<std::int32_t> ids = visible_ids(sequence);
  const int n = static_cast<int>(ids.size());
  const RetentionGeometry geometry = policy.spec.geometry(n);
  return scored_lifetimes(policy.kind == EvalKind::random ? random_scores(model.config(), n, seed)
                                                          : oracle_scores(model, ids, geometry.window),
                          geometry);
}

bool answers(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
             const LifetimeMap& prepared, const AnswerSpan& span, const Hooks& hooks) {
  if (policy.kind == EvalKind::policy) return answers_by_policy(model, policy.spec, sequence, span, hooks);
  const std::span<const std::int32_t> ids(sequence.ids);
  return answers_under(model, prepared, ids.first(span.begin), ids.subspan(span.begin, span.end - span.begin));
}

double sequence_recall(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
                       const LifetimeMap& prepared, const Hooks& hooks) {
  if (policy.kind == EvalKind::policy) {
    auto request = request_of(policy.spec, visible_ids(sequence), 0);
    request.oracle = true;
    RunRecord record = record_run(model, request, hooks);
    return mean_of(Oracle(record)).recall;
  }
  RunRecord record;
  record.model = model.info();
  record.policy = policy.spec;
  record.ids = visible_ids(sequence);
  record.n_positions = record.prompt_len = record.n_tokens();
  record.evict_at = prepared;
  DenseTeacher teacher(model, record.n_positions, record.geometry().window);
  teacher.absorb(record.ids, hooks.cancelled);
  record.future_mass = teacher.future_mass();
  record.oracle_horizon = teacher.horizon();
  record.status = RunStatus::complete;
  return mean_of(Oracle(record)).recall;
}

}  // namespace kvscope::engine
