#include "engine/decode/density_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/gate_pass.h"

namespace kvscope::engine {
namespace {

constexpr int kRounds = 4;
constexpr double kNear = 0.005;

/// [n_layers][n_kv_heads][n_tokens]; NaN where none was told.
HeadSeries<float> told_scores(const ModelConfig& config, const StepFacts& facts, std::size_t n_tokens) {
  HeadSeries<float> scores(config.n_layers, config.n_kv_heads);
  scores.resize(n_tokens, std::numeric_limits<float>::quiet_NaN());
  for (const StepFacts::Score& score : facts.scores)
    scores.row(score.layer, score.kv_head)[static_cast<std::size_t>(score.token)] = score.value;
  return scores;
}

void check_thresholds(const ModelConfig& config, const RunRequest& request, bool solves) {
  const auto n_heads = static_cast<std::size_t>(config.n_layers * config.n_kv_heads);
  const std::vector<float>& given = request.thresholds;
  if (std::any_of(given.begin(), given.end(), [](float one) { return std::isnan(one); }))
    throw Error({.code = ExitCode::usage, .file = "thresholds", .found = "NaN", .expected = "numbers"});
  if (given.empty() || (solves && given.size() == n_heads)) return;
  throw Error({.code = ExitCode::usage,
               .file = "thresholds",
               .found = std::to_string(given.size()) + " under " + request.policy.to_string(),
               .expected = solves ? std::to_string(n_heads) + ", one per KV head" : "none: the policy has no density"});
}

}  // namespace

std::vector<float> density_thresholds(const LoadedModel& model, const RunRequest& request,
                                      std::span<const std::int32_t> prompt, int n_positions, const Hooks& hooks,
                                      const ReadPrompt& read) {
  const ModelConfig& config = model.config();
  const bool solves = policy_of(request.policy).plan(request.policy, {}).density > 0;
  check_thresholds(config, request, solves);
  if (!solves || !request.thresholds.empty()) return request.thresholds;
  // A policy that stands for the scorer and heads alone: what the thresholds are does not matter to these.
  const FirstPass none{.future = nullptr,
                       .thresholds = std::vector<float>(static_cast<std::size_t>(config.n_layers * config.n_kv_heads)),
                       .budgets = {}};
  const ActivePolicy policy(request.policy, n_positions, model, request.chunk, none);
  const int n_tokens = static_cast<int>(prompt.size());
  const TokenScorer* const scorers[] = {policy.scorer()};
  std::vector<float> thresholds =
      policy.solved_thresholds(dense_scores(model, scorers, prompt, "density", hooks).front(), n_tokens);
  std::vector<float> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds && least > kNear; ++round) {
    const HeadSeries<float> scores = told_scores(config, read(thresholds), prompt.size());
    const double error = policy.error_of(thresholds, scores, n_tokens);
    std::vector<float> next = policy.solved_thresholds(scores, n_tokens);
    const bool settled = next == thresholds;
    if (error < least) least = error, nearest = std::move(thresholds);
    if (settled) break;
    thresholds = std::move(next);
  }
  return nearest;
}

std::vector<std::int32_t> head_budgets(const LoadedModel& model, const RunRequest& request,
                                       std::span<const std::int32_t> prompt, int n_positions, const Hooks& hooks) {
  const PolicySpec spec = ActivePolicy::resolved(request.policy, model);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(n_positions));
  if (!request.budgets.empty() || !plan.allocation.by_score() || plan.source != ScoreSource::gate)
    return request.budgets;
  const ActivePolicy policy(request.policy, n_positions, model, request.chunk);
  const TokenScorer* const scorers[] = {policy.scorer()};
  return policy.solved_budgets(dense_scores(model, scorers, prompt, "budgets", hooks).front(),
                               static_cast<int>(prompt.size()));
}

}  // namespace kvscope::engine
