// Scores that are known before the run begins: those of the oracle.
#include <limits>

#include "engine/scorer/make_scorer.h"
#include "kernels/gate_score.h"

namespace kvscope::engine {
namespace {

class TableScorer final : public TokenScorer {
 public:
  TableScorer(const at::Tensor& scores, const ModelConfig& config, const Weights& weights)
      : TokenScorer("oracle", 0),
        config_(config),
        dtype_(kernel_dtype(weights.dtype)),
        table_(scores.to(weights.device).contiguous()) {}

  double weight_bytes() const override { return 0; }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory*) const override {
    const std::int64_t n = tokens.k.size(0), known = std::clamp<std::int64_t>(table_.size(2) - first, 0, n);
    at::Tensor scores = at::full({config_.n_kv_heads, n}, std::numeric_limits<float>::quiet_NaN(), table_.options());
    if (known > 0) scores.narrow(1, 0, known).copy_(table_[layer].narrow(1, first, known));
    return scores;
  }

  std::optional<kernels::GateScoreArgs> gate(const DecodeToken& token) const override {
    return kernels::GateScoreArgs{.qkv = token.qkv,
                                  .inv_freq = nullptr,
                                  .position = token.position,
                                  .n_heads = config_.n_heads,
                                  .n_kv_heads = config_.n_kv_heads,
                                  .head_dim = config_.head_dim,
                                  .dtype = dtype_,
                                  .source = kernels::GateSource::table,
                                  .table = table_[token.layer].data_ptr<float>(),
                                  .table_stride = static_cast<int>(table_.size(2)),
                                  .out = token.score};
  }

 private:
  ModelConfig config_;
  kernels::DType dtype_;
  at::Tensor table_;  // [n_layers, n_kv_heads, positions] float32
};

}  // namespace

std::unique_ptr<TokenScorer> make_table_scorer(const at::Tensor& scores, const ModelConfig& config,
                                               const Weights& weights) {
  return std::make_unique<TableScorer>(scores, config, weights);
}

}  // namespace kvscope::engine
