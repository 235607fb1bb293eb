// Scores that know nothing: uniform in [0, 1), the same for the same seed, layer, head and position wherever they are
// computed.
#include "engine/scorer/make_scorer.h"
#include "kernels/gate_score.h"
#include "kernels/rule/counter_random.h"

namespace kvscope::engine {
namespace {

class RandomScorer final : public TokenScorer {
 public:
  RandomScorer(std::uint64_t seed, const ModelConfig& model, const Weights& weights)
      : seed_(seed), model_(model), weights_(weights) {}

  std::string_view kind() const override { return "random"; }
  int delay() const override { return 0; }
  std::string description() const override { return "random, delay 0"; }
  double weight_bytes() const override { return 0; }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory*) const override {
    const std::int64_t n = tokens.k.size(0);
    at::Tensor scores = at::empty({model_.n_kv_heads, n}, at::kFloat);
    float* score = scores.data_ptr<float>();
    for (int head = 0; head < model_.n_kv_heads; ++head) {
      for (std::int64_t i = 0; i < n; ++i) {
        *score++ = kernels::counter_uniform(seed_, layer, head, static_cast<std::int32_t>(first + i));
      }
    }
    return scores;
  }

  void enqueue(const DecodeToken& token, kernels::Place place) const override {
    const kernels::GateScoreArgs args = {.qkv = token.qkv,
                                         .inv_freq = weights_.layers[token.layer].inv_freq.data_ptr<float>(),
                                         .position = token.position,
                                         .n_heads = model_.n_heads,
                                         .n_kv_heads = model_.n_kv_heads,
                                         .head_dim = model_.head_dim,
                                         .dtype = kernel_dtype(weights_.dtype),
                                         .source = kernels::GateSource::random,
                                         .seed = seed_,
                                         .layer = token.layer,
                                         .out = token.score};
    kernels::gate_score(args, place);
  }

 private:
  std::uint64_t seed_;
  ModelConfig model_;
  const Weights& weights_;
};

}  // namespace

std::unique_ptr<TokenScorer> make_random_scorer(std::uint64_t seed, const ModelConfig& config, const Weights& weights) {
  return std::make_unique<RandomScorer>(seed, config, weights);
}

}  // namespace kvscope::engine
