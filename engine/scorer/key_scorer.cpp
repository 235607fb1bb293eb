// Scores of the key alone, without weights: its norm (Devoto et al., 2024), and how it differs from the others (KeyDiff).
//
//     knorm     y = -|k|
//     keydiff   y = -cos(k, a), a = sum of k_u / |k_u| over all tokens u up to this one, evicted ones included
//     score     = +-(scale y + offset), then its sigmoid where the gate says so
//
// k as the cache holds it, after its rotation. float32.

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/scorer/make_scorer.h"
#include "kernels/gate_score.h"

namespace kvscope::engine {
namespace {

/// The sum of unit keys so far.
struct KeyAnchor final : ScorerMemory {
  at::Tensor sum;  // [n_layers, n_kv_heads, head_dim]
};

class KeyScorer final : public TokenScorer {
 public:
  KeyScorer(const GateFile& gate, const ModelConfig& model, const Weights& weights)
      : TokenScorer(name_of(gate.config.kind), 0), config_(gate.config), model_(model), weights_(weights) {
    const double sign = config_.negated ? -1 : 1;
    scale_ = static_cast<float>(sign * config_.scale);
    offset_ = static_cast<float>(sign * config_.offset);
  }

  double weight_bytes() const override { return 0; }
  double memory_bytes() const override {
    return has_anchor() ? 4.0 * model_.n_layers * model_.n_kv_heads * model_.head_dim : 0;
  }

  std::unique_ptr<ScorerMemory> new_memory() const override {
    if (!has_anchor()) return nullptr;
    auto memory = std::make_unique<KeyAnchor>();
    memory->sum = at::zeros({model_.n_layers, model_.n_kv_heads, model_.head_dim},
                            at::TensorOptions().device(weights_.device).dtype(at::kFloat));
    return memory;
  }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t, ScorerMemory* memory) const override {
    const at::Tensor k = tokens.k.to(at::kFloat).transpose(0, 1);  // [n_kv_heads, n, head_dim]
    const at::Tensor length = k.norm(2, -1);
    at::Tensor score = -length;
    if (has_anchor()) {
      const at::Tensor carried = static_cast<KeyAnchor*>(memory)->sum[layer];
      const at::Tensor anchor = (k / length.clamp_min(1e-12).unsqueeze(2)).cumsum(1) + carried.unsqueeze(1);
      carried.copy_(anchor.select(1, anchor.size(1) - 1));
      score = -(k * anchor).sum(-1) / (length.clamp_min(1e-8) * anchor.norm(2, -1).clamp_min(1e-8));
    }
    score = score.mul(scale_).add_(offset_);
    return config_.sigmoid ? score.sigmoid() : score;
  }

  std::optional<kernels::GateScoreArgs> gate(const DecodeToken& token) const override {
    kernels::GateScoreArgs args = gate_score_args(token, model_, weights_);
    args.source = has_anchor() ? kernels::GateSource::key_anchor : kernels::GateSource::key_norm;
    if (has_anchor()) args.anchor = static_cast<KeyAnchor*>(token.memory)->sum[token.layer].data_ptr<float>();
    args.scale = scale_;
    args.offset = offset_;
    args.sigmoid = config_.sigmoid;
    return args;
  }

 private:
  bool has_anchor() const { return info_of(config_.kind).has_memory; }

  GateConfig config_;
  ModelConfig model_;
  const Weights& weights_;
  float scale_ = 1, offset_ = 0;
};

}  // namespace

std::unique_ptr<TokenScorer> make_key_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights) {
  return std::make_unique<KeyScorer>(gate, config, weights);
}

}  // namespace kvscope::engine
