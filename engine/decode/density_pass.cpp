#include "engine/decode/density_pass.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/decode/dense_attention.h"
#include "engine/decode/eviction/active_policy.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kChunk = 512;  // queries of one pass; bounds its memory and the time until a cancel is heard

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

/// Dense attention over all keys so far, with a scorer beside it.
class ScoreSite final : public AttentionSite {
 public:
  ScoreSite(const LoadedModel& model, const TokenScorer& scorer, std::int64_t n_tokens)
      : model_(model),
        scorer_(scorer),
        memory_(scorer.new_memory()),
        scores_(model.config().n_layers, model.config().n_kv_heads) {
    const ModelConfig& config = model.config();
    keys_ = at::empty({config.n_layers, config.n_kv_heads, n_tokens, config.head_dim},
                      at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype));
    values_ = at::empty_like(keys_);
    scores_.resize(static_cast<std::size_t>(n_tokens), std::numeric_limits<float>::quiet_NaN());
  }

  bool reads_unrotated() const override { return scorer_.reads_unrotated(); }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0);
    const at::Tensor keys = keys_[layer], values = values_[layer];
    keys.narrow(1, first_, n).copy_(tokens.k.transpose(0, 1));
    values.narrow(1, first_, n).copy_(tokens.v.transpose(0, 1));
    note(layer, scorer_.absorb(layer, tokens, first_, memory_.get()).cpu().contiguous());
    const int n_kv_heads = model_.config().n_kv_heads;
    return dense_attention(choose_dense_backend(tokens.q, n_kv_heads), tokens.q, keys, values, first_, tokens.scale);
  }

  void advance(std::int64_t n) { first_ += n; }
  HeadSeries<float> take() { return std::move(scores_); }

 private:
  /// scores: [n_kv_heads, n], column i that of token first + i - delay.
  void note(int layer, const at::Tensor& scores) {
    const std::int64_t n = scores.size(1), begin = std::max<std::int64_t>(0, scorer_.delay() - first_);
    for (int head = 0; head < model_.config().n_kv_heads; ++head) {
      const float* of_head = scores.data_ptr<float>() + head * n;
      auto out = scores_.row(layer, head).begin() + (first_ + begin - scorer_.delay());
      if (begin < n) std::copy(of_head + begin, of_head + n, out);
    }
  }

  const LoadedModel& model_;
  const TokenScorer& scorer_;
  std::unique_ptr<ScorerMemory> memory_;
  at::Tensor keys_, values_;  // [n_layers, n_kv_heads, n_tokens, head_dim]
  std::int64_t first_ = 0;
  HeadSeries<float> scores_;
};

void check_thresholds(const ModelConfig& config, const RunRequest& request, bool solves) {
  const auto n_heads = static_cast<std::size_t>(config.n_layers * config.n_kv_heads);
  const std::vector<float>& given = request.thresholds;
  if (std::any_of(given.begin(), given.end(), [](float one) { return std::isnan(one); }))
    throw Error({.code = ExitCode::usage, .file = "thresholds", .found = "NaN", .expected = "numbers"});
  if (given.empty() || (solves && given.size() == n_heads)) return;
  throw Error({.code = ExitCode::usage,
               .file = "thresholds",
               .found = std::to_string(given.size()) + " under " + request.policy.to_string(),
               .expected = solves ? std::to_string(n_heads) + ", one a KV head" : "none: it has no density"});
}

}  // namespace

HeadSeries<float> dense_scores(const LoadedModel& model, const TokenScorer& scorer, std::span<const std::int32_t> ids,
                               const Hooks& hooks) {
  const c10::InferenceMode no_gradients;
  const auto n_tokens = static_cast<std::int64_t>(ids.size());
  ScoreSite site(model, scorer, n_tokens);
  const at::Tensor tokens = ids_tensor(model.weights(), ids.data(), n_tokens);
  for (std::int64_t first = 0; first < n_tokens; first += kChunk) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    if (hooks.progress) hooks.progress("density", static_cast<double>(first), static_cast<double>(n_tokens));
    const std::int64_t n = std::min(kChunk, n_tokens - first);
    forward(model.config(), model.weights(), tokens.narrow(0, first, n), first, site);
    site.advance(n);
  }
  return site.take();
}

std::vector<float> density_thresholds(const LoadedModel& model, const RunRequest& request,
                                      std::span<const std::int32_t> prompt, int n_positions, const Hooks& hooks,
                                      const ReadPrompt& read) {
  const ModelConfig& config = model.config();
  const bool solves = policy_of(request.policy).plan(request.policy, {}).density > 0;
  check_thresholds(config, request, solves);
  if (!solves || !request.thresholds.empty()) return request.thresholds;
  // A policy that stands for the scorer and heads alone: what the thresholds are does not matter to these.
  const FirstPass none{.future = nullptr,
                       .thresholds = std::vector<float>(static_cast<std::size_t>(config.n_layers * config.n_kv_heads))};
  const ActivePolicy policy(request.policy, n_positions, model, request.chunk, none);
  const int n_tokens = static_cast<int>(prompt.size());
  std::vector<float> thresholds =
      policy.solved_thresholds(dense_scores(model, *policy.scorer(), prompt, hooks), n_tokens);
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

}  // namespace kvscope::engine
