#include "engine/scorer/make_scorer.h"

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/support/error.h"
#include "engine/scorer/kvpop_scorer.h"
#include "kernels/gate_score.h"
#include "kernels/rule/counter_random.h"

namespace kvscope::engine {
namespace {

/// Scores that know nothing: the same for the same seed, layer, head and position wherever they are computed.
class RandomScorer final : public TokenScorer {
 public:
  RandomScorer(std::uint64_t seed, const ModelConfig& model, const Weights& weights)
      : TokenScorer("random", 0), seed_(seed), model_(model), weights_(weights) {}

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

  std::optional<kernels::GateScoreArgs> gate(const DecodeToken& token) const override {
    kernels::GateScoreArgs args = gate_score_args(token, model_, weights_);
    args.source = kernels::GateSource::random;
    args.seed = seed_;
    args.layer = token.layer;
    return args;
  }

 private:
  std::uint64_t seed_;
  ModelConfig model_;
  const Weights& weights_;
};

}  // namespace

kernels::GateScoreArgs gate_score_args(const DecodeToken& token, const ModelConfig& model, const Weights& weights) {
  const LayerWeights& layer = weights.layers[static_cast<std::size_t>(token.layer)];
  const auto norm = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; };
  return {.qkv = token.qkv,
          .q_norm = norm(layer.q_norm),
          .k_norm = norm(layer.k_norm),
          .inv_freq = layer.inv_freq.data_ptr<float>(),
          .position = token.position,
          .n_heads = model.n_heads,
          .n_kv_heads = model.n_kv_heads,
          .head_dim = model.head_dim,
          .eps = model.layers[token.layer].norm_eps,
          .norm_offset = weights.norm_offset,
          .attention_scaling = layer.attention_scaling,
          .dtype = kernel_dtype(weights.dtype),
          .out = token.score};
}

at::Tensor gate_tensor(const GateFile& gate, const char* name, const Weights& weights) {
  const GateTensor& tensor = gate.tensors.at(name);
  return at::from_blob(const_cast<float*>(tensor.values.data()), tensor.shape, at::kFloat)
      .to(weights.device, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::gelu ? at::gelu(x) : activation == Activation::silu ? at::silu(x) : x;
}

static std::unique_ptr<TokenScorer> make_mlstm_scorer(const GateFile& gate, const ModelConfig& config,
                                                      const Weights& weights) {
  // The score is linear in `out` and b: scale, offset and sign are folded into them.
  const GateConfig& c = gate.config;
  const double sign = c.negated ? -1 : 1;
  const TensorSource source = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const at::Tensor tensor = gate_tensor(gate, name.c_str(), weights).view(shape);
    if (name == "out") return tensor * (sign * c.scale);
    return name == "b" ? tensor * (sign * c.scale) + sign * c.offset : tensor;
  };
  const KvpopScorerConfig numbers{
      .delay = c.delay, .soft_cap = c.soft_cap, .guarded = c.guarded, .variant = c.mlstm, .norm_eps = c.norm_eps};
  return std::make_unique<KvpopScorer>(numbers, config, source, weights.device);
}

std::unique_ptr<TokenScorer> make_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights) {
  if (gate.config.per_layer) {
    throw Error({.file = gate.path.string(),
                 .where = "per_layer",
                 .found = "a gate whose first head decides for the whole layer",
                 .expected = "a gate whose KV heads decide separately"});
  }
  const GateKindInfo& kind = info_of(gate.config.kind);
  const bool reads_channels =
      kind.reads == GateReads::key_value || kind.reads == GateReads::key_pair || kind.reads == GateReads::query_channel;
  if (reads_channels) require_whole_rotation(config, "a gate that reads the channels of heads");
  switch (kind.reads) {
    case GateReads::key:
      return make_key_scorer(gate, config, weights);
    case GateReads::key_value:
      if (kind.has_memory) return make_mlstm_scorer(gate, config, weights);
      [[fallthrough]];
    case GateReads::key_pair:
    case GateReads::query_channel:
      return make_head_scorer(gate, config, weights);
    case GateReads::attention_input:
    case GateReads::layer_input:
      return make_input_scorer(gate, config, weights);
    case GateReads::nothing:
      break;
  }
  throw Error({.file = gate.path.string(), .found = "values of heads", .expected = "a gate that scores tokens"});
}

std::unique_ptr<TokenScorer> make_random_scorer(std::uint64_t seed, const ModelConfig& config, const Weights& weights) {
  return std::make_unique<RandomScorer>(seed, config, weights);
}

}  // namespace kvscope::engine
