#include "engine/decode/gate_pass.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/decode/dense_attention.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kGateChunk = 512;  // queries of one pass; bounds its memory and the time until a cancel is heard

/// One scorer and the scores that it has made so far.
struct ScorerPass {
  const TokenScorer& scorer;
  std::unique_ptr<ScorerMemory> memory;
  HeadSeries<float> scores;

  ScorerPass(const TokenScorer& of, const ModelConfig& config, std::size_t n_tokens)
      : scorer(of), memory(of.new_memory()), scores(config.n_layers, config.n_kv_heads) {
    scores.resize(n_tokens, std::numeric_limits<float>::quiet_NaN());
  }

  /// Tokens first ... first + n - 1 of a layer are there.
  void absorb(int layer, const LayerTokens& tokens, std::int64_t first) {
    const at::Tensor made = scorer.absorb(layer, tokens, first, memory.get()).cpu().contiguous();
    // Column i is the score of token first + i - delay.
    const std::int64_t n = made.size(1), begin = std::max<std::int64_t>(0, scorer.delay() - first);
    if (begin >= n) return;
    for (int head = 0; head < static_cast<int>(made.size(0)); ++head) {
      const float* of_head = made.data_ptr<float>() + head * n;
      std::copy(of_head + begin, of_head + n, scores.row(layer, head).begin() + (first + begin - scorer.delay()));
    }
  }
};

/// Dense attention over all keys so far, with the scorers beside it.
class ScoreHook final : public AttentionHook {
 public:
  ScoreHook(const LoadedModel& model, std::span<const TokenScorer* const> scorers, std::int64_t n_tokens)
      : n_kv_heads_(model.config().n_kv_heads) {
    const ModelConfig& config = model.config();
    for (const TokenScorer* scorer : scorers)
      scorers_.emplace_back(*scorer, config, static_cast<std::size_t>(n_tokens));
    keys_ = at::empty({config.n_layers, config.n_kv_heads, n_tokens, config.head_dim},
                      at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype));
    values_ = at::empty_like(keys_);
  }

  bool reads_unrotated() const override {
    return std::ranges::any_of(scorers_, [](const ScorerPass& one) { return one.scorer.reads_unrotated(); });
  }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0);
    const at::Tensor keys = keys_[layer], values = values_[layer];
    keys.narrow(1, first_, n).copy_(tokens.k.transpose(0, 1));
    values.narrow(1, first_, n).copy_(tokens.v.transpose(0, 1));
    for (ScorerPass& one : scorers_) one.absorb(layer, tokens, first_);
    return dense_attention(choose_dense_backend(tokens.q, n_kv_heads_), tokens.q, keys, values, first_, tokens.scores,
                           tokens.window);
  }

  void advance(std::int64_t n) { first_ += n; }
  std::vector<HeadSeries<float>> take() {
    std::vector<HeadSeries<float>> all;
    for (ScorerPass& one : scorers_) all.push_back(std::move(one.scores));
    return all;
  }

 private:
  int n_kv_heads_;
  std::vector<ScorerPass> scorers_;
  at::Tensor keys_, values_;  // [n_layers, n_kv_heads, n_tokens, head_dim]
  std::int64_t first_ = 0;
};

void check_text(const ModelConfig& config, std::span<const std::int32_t> ids) {
  if (ids.empty() || std::ssize(ids) > config.max_positions)
    throw Error({.code = ExitCode::usage,
                 .file = "ids",
                 .found = std::to_string(ids.size()) + " tokens",
                 .expected = "1 to " + std::to_string(config.max_positions)});
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    throw Error({.code = ExitCode::usage,
                 .file = "ids",
                 .found = std::to_string(id),
                 .expected = "0 to " + std::to_string(config.vocab_size - 1)});
  }
}

}  // namespace

std::vector<HeadSeries<float>> dense_scores(const LoadedModel& model, std::span<const TokenScorer* const> scorers,
                                            std::span<const std::int32_t> ids, const char* phase, const Hooks& hooks) {
  const c10::InferenceMode no_gradients;
  const auto n_tokens = static_cast<std::int64_t>(ids.size());
  ScoreHook hook(model, scorers, n_tokens);
  const at::Tensor tokens = ids_tensor(model.weights(), ids.data(), n_tokens);
  for (std::int64_t first = 0; first < n_tokens; first += kGateChunk) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    if (hooks.progress) hooks.progress(phase, static_cast<double>(first), static_cast<double>(n_tokens));
    const std::int64_t n = std::min(kGateChunk, n_tokens - first);
    forward(model.config(), model.weights(), tokens.narrow(0, first, n), first, hook);
    hook.advance(n);
  }
  return hook.take();
}

ScoresOfGates gate_scores(const LoadedModel& model, const GateScoresRequest& request, const Hooks& hooks) {
  check_text(model.config(), request.ids);
  if (model.gates().empty())
    throw Error({.found = "a model without any gate",
                 .expected = "a gate that can score a text",
                 .hint = "load one with --gate PATH (docs/reference/gates.md)"});
  std::vector<const TokenScorer*> scorers;
  for (const LoadedGate& gate : model.gates()) scorers.push_back(gate.scorer.get());
  std::vector<HeadSeries<float>> scores = dense_scores(model, scorers, request.ids, "gates", hooks);
  const GatesOfModel numbers = model.gate_numbers();
  ScoresOfGates all;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    all.push_back({.gate = numbers.scorers[i],
                   .text = scorers[i]->description(),
                   .name = scorers[i]->name(),
                   .log_gamma = model.gates()[i].log_gamma,
                   .scores = std::move(scores[i])});
  }
  return all;
}

}  // namespace kvscope::engine
