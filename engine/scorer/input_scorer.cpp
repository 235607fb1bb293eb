// Gates on what enters attention, one network a layer with an output for each KV head: SP-KV's utility predictor,
// KVzap, and DMS with a projection of its own.
//
//     y = W2 act(W1 n + b1) + b2   or   W2 n + b2,    n = the attention input, or its own norm of the residual stream
//     SP-KV App. C.4: W2 reads the hidden units of the tokens around instead (token_convolution.h), and the score is that of
//     the token half a kernel before
//     score = +-(scale y + offset), then its sigmoid where the method has one
//
// Weights are rounded to the model's dtype and run by the kernels of its linear layers; scale, offset and sign are
// folded into W2 and b2.
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/model/ops.h"
#include "engine/scorer/make_scorer.h"
#include "engine/scorer/token_convolution.h"
#include "kernels/project.h"

namespace kvscope::engine {
namespace {

bool reads_layer_input(const GateConfig& config) { return info_of(config.kind).reads == GateReads::layer_input; }

int delay_of(const GateConfig& config) {
  return reads_layer_input(config) ? 1 : config.kernel / 2;  // a mark comes with the next token
}

class InputScorer final : public TokenScorer {
 public:
  InputScorer(const GateFile& gate, const ModelConfig& config, const Weights& weights)
      : TokenScorer(name_of(gate.config.kind), delay_of(gate.config)),
        config_(gate.config),
        n_kv_heads_(config.n_kv_heads),
        layers_(config.layers),
        norm_offset_(reads_layer_input(gate.config) ? 0 : weights.norm_offset) {
    const auto get = [&](const char* name) { return gate_tensor(gate, name, weights).to(weights.dtype); };
    if (config_.n_hidden > 0) {
      w1_ = get("w1");
      b1_ = get("b1");
      hidden_ = at::zeros({config_.n_hidden}, w1_.options());
    }
    if (config_.kernel > 1) around_.emplace(gate_tensor(gate, "conv", weights), weights.dtype);
    if (reads_layer_input(config_)) norm_ = get("norm");
    const double sign = config_.negated ? -1 : 1;
    w2_ = (gate_tensor(gate, "w2", weights) * (sign * config_.scale)).to(weights.dtype);
    b2_ = (gate_tensor(gate, "b2", weights) * (sign * config_.scale) + sign * config_.offset).to(weights.dtype);
  }

  double weight_bytes() const override {
    return static_cast<double>(w2_.nbytes() + (w1_.defined() ? w1_.nbytes() : 0)) +
           (around_ ? around_->weight_bytes() : 0);
  }
  double memory_bytes() const override { return around_ ? around_->memory_bytes() : 0; }
  std::unique_ptr<ScorerMemory> new_memory() const override { return around_ ? around_->new_memory() : nullptr; }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory* memory) const override {
    at::Tensor n = norm_.defined() ? ops::rms_norm(tokens.x, norm_[layer], norm_eps(layer)) : tokens.input;
    if (w1_.defined()) n = activate(ops::linear(n, w1_[layer], b1_[layer]), config_.activation);
    if (around_) n = around_->absorb(layer, n, first, *memory);
    // The last product is small, and its result is compared with a threshold: float32 as the decode step has it.
    at::Tensor score = ops::linear(n.to(at::kFloat), w2_[layer].to(at::kFloat), b2_[layer].to(at::kFloat));
    if (config_.sigmoid) score = score.sigmoid();
    score = score.t().contiguous();  // [n_kv_heads, n]
    const std::int64_t nobody = std::min(score.size(1), std::max<std::int64_t>(0, delay() - first));
    score.narrow(1, 0, nobody).fill_(std::nan(""));
    return score;
  }

  void enqueue(const DecodeToken& token, kernels::Place place) const override {
    const kernels::DType dtype = kernel_dtype(w2_.scalar_type());
    const void* norm = norm_.defined() ? norm_[token.layer].data_ptr() : token.input_norm;
    const void* x = norm != nullptr ? token.x : token.input;
    kernels::ProjectArgs last = {.weight = w2_[token.layer].data_ptr(),
                                 .bias = b2_[token.layer].data_ptr(),
                                 .x = x,
                                 .norm_weight = norm,
                                 .out = token.score,
                                 .n_rows = n_kv_heads_,
                                 .dim = static_cast<int>(w2_.size(2)),
                                 .eps = norm_eps(token.layer),
                                 .norm_offset = norm_offset_,
                                 .epilogue = config_.sigmoid ? kernels::Epilogue::sigmoid : kernels::Epilogue::logits,
                                 .dtype = dtype};
    if (w1_.defined()) {
      kernels::project({.weight = w1_[token.layer].data_ptr(),
                        .bias = b1_[token.layer].data_ptr(),
                        .x = x,
                        .norm_weight = norm,
                        .out = hidden_.data_ptr(),
                        .n_rows = w1_.size(1),
                        .dim = static_cast<int>(w1_.size(2)),
                        .eps = norm_eps(token.layer),
                        .norm_offset = norm_offset_,
                        .epilogue = config_.activation == Activation::gelu   ? kernels::Epilogue::gelu
                                    : config_.activation == Activation::silu ? kernels::Epilogue::silu
                                                                             : kernels::Epilogue::store,
                        .dtype = dtype},
                       place);
      if (around_) around_->enqueue(token.layer, hidden_.data_ptr(), token.position, *token.memory, place);
      last.x = hidden_.data_ptr();
      last.norm_weight = nullptr;
    }
    kernels::project(last, place);
  }

 private:
  /// Of the norm before the gate: its own, or the attention's.
  float norm_eps(int layer) const {
    return norm_.defined() ? static_cast<float>(config_.norm_eps) : layers_[layer].norm_eps;
  }

  GateConfig config_;
  std::int64_t n_kv_heads_;
  std::vector<LayerConfig> layers_;
  float norm_offset_;                       // of the norm before the gate
  at::Tensor norm_;                         // [n_layers, hidden], undefined: the attention's own norm
  at::Tensor w1_, b1_;                      // [n_layers, M, hidden], [n_layers, M]; undefined without a hidden layer
  at::Tensor w2_, b2_;                      // [n_layers, n_kv_heads, M or hidden], [n_layers, n_kv_heads]
  at::Tensor hidden_;                       // [M] of the token in hand: tokens come one after the other on a stream
  std::optional<TokenConvolution> around_;  // of hidden_, in its place
};

}  // namespace

std::unique_ptr<TokenScorer> make_input_scorer(const GateFile& gate, const ModelConfig& config,
                                               const Weights& weights) {
  return std::make_unique<InputScorer>(gate, config, weights);
}

}  // namespace kvscope::engine
