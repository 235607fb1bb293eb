// Gates that a KV head computes from its own keys, values or queries: WG-KV's, KVpop's linear and MLP scorers, and
// DMS's channel of the query.
//
//     x = [k ; v]                                             KVpop, k rotated
//       = [RMSNorm(k unrotated) ; RMSNorm(k rotated)]         WG-KV
//     y = w2 . act(W1 x + b1) + b2, or w2 . x + b2, or channel head_dim - 1 of the group's first query (DMS)
//     score = +-(scale y + offset), then its sigmoid where the method has one
//
// float32 throughout, as these gates were trained.
#include <cmath>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/support/error.h"
#include "engine/scorer/make_scorer.h"
#include "kernels/gate_score.h"

namespace kvscope::engine {
namespace {

GateReads reads_of(const GateFile& gate) { return info_of(gate.config.kind).reads; }

class HeadScorer final : public TokenScorer {
 public:
  HeadScorer(const GateFile& gate, const ModelConfig& model, const Weights& weights)
      // A network without memory says the same of a token now and later; DMS's mark comes with the next token.
      : TokenScorer(name_of(gate.config.kind), reads_of(gate) == GateReads::query_channel ? 1 : 0),
        config_(gate.config),
        reads_(reads_of(gate)),
        model_(model),
        weights_(weights) {
    const auto get = [&](const char* name) { return gate_tensor(gate, name, weights); };
    if (reads_ != GateReads::query_channel) {
      w2_ = get("w2");
      b2_ = get("b2");
    }
    if (config_.n_hidden > 0) {
      w1_ = get("w1");
      b1_ = get("b1");
    }
    if (reads_ == GateReads::key_pair) {
      pre_norm_ = get("pre_norm");
      post_norm_ = get("post_norm");
    }
    const double sign = config_.negated ? -1 : 1;
    scale_ = static_cast<float>(sign * config_.scale);
    offset_ = static_cast<float>(sign * config_.offset);
    activation_ = config_.activation == Activation::gelu   ? kernels::GateActivation::gelu
                  : config_.activation == Activation::silu ? kernels::GateActivation::silu
                                                           : kernels::GateActivation::identity;
  }

  bool reads_unrotated() const override { return reads_ != GateReads::key_value; }
  double weight_bytes() const override {
    double bytes = 0;
    for (const at::Tensor* tensor : {&w1_, &w2_})
      bytes += tensor->defined() ? static_cast<double>(tensor->nbytes()) : 0;
    return bytes;
  }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory*) const override {
    at::Tensor score = output(layer, tokens).mul(scale_).add(offset_);
    if (config_.sigmoid) score = score.sigmoid();
    score = score.contiguous();
    if (first < delay()) score.narrow(1, 0, delay() - first).fill_(std::nan(""));
    return score;
  }

  std::optional<kernels::GateScoreArgs> gate(const DecodeToken& token) const override {
    const auto row = [&](const at::Tensor& tensor) {
      return tensor.defined() ? tensor[token.layer].data_ptr<float>() : nullptr;
    };
    kernels::GateScoreArgs args = gate_score_args(token, model_, weights_);
    args.source = source();
    args.gate_eps = static_cast<float>(config_.norm_eps);
    args.pre_weight = row(pre_norm_);
    args.post_weight = row(post_norm_);
    args.w1 = row(w1_);
    args.b1 = row(b1_);
    args.w2 = row(w2_);
    args.b2 = row(b2_);
    args.n_hidden = config_.n_hidden;
    args.activation = activation_;
    args.scale = scale_;
    args.offset = offset_;
    args.sigmoid = config_.sigmoid;
    return args;
  }

 private:
  /// The network's output, [n_kv_heads, n].
  at::Tensor output(int layer, const LayerTokens& tokens) const {
    if (reads_ == GateReads::query_channel) {
      const at::Tensor& q = tokens.q_unrotated;
      return q.view({q.size(0), model_.n_kv_heads, model_.group_size(), model_.head_dim})
          .select(2, 0)
          .select(2, model_.head_dim - 1)
          .to(at::kFloat)
          .t();
    }
    at::Tensor x = input(layer, tokens).transpose(0, 1);  // [n_kv_heads, n, 2 D]
    if (w1_.defined()) {
      x = at::baddbmm(b1_[layer].unsqueeze(1), x, w1_[layer].transpose(1, 2));
      x = activate(x, config_.activation);
    }
    return at::bmm(x, w2_[layer].unsqueeze(2)).squeeze(2) + b2_[layer].unsqueeze(1);
  }

  at::Tensor input(int layer, const LayerTokens& tokens) const {
    const at::Tensor k = tokens.k.to(at::kFloat);
    if (reads_ != GateReads::key_pair) return at::cat({k, tokens.v.to(at::kFloat)}, -1);
    const auto normed = [&](const at::Tensor& y, const at::Tensor& weight) {
      return y * at::rsqrt(y.square().mean(-1, true) + config_.norm_eps) * weight[layer];
    };
    return at::cat({normed(tokens.k_unrotated.to(at::kFloat), pre_norm_), normed(k, post_norm_)}, -1);
  }

  kernels::GateSource source() const {
    return reads_ == GateReads::query_channel ? kernels::GateSource::query_channel
           : reads_ == GateReads::key_pair    ? kernels::GateSource::key_pair
                                              : kernels::GateSource::key_value;
  }

  GateConfig config_;
  GateReads reads_;
  ModelConfig model_;
  const Weights& weights_;
  float scale_ = 1, offset_ = 0;
  kernels::GateActivation activation_;
  at::Tensor pre_norm_, post_norm_;  // [n_layers, head_dim], of WG-KV
  at::Tensor w1_, b1_;               // [n_layers, n_kv_heads, M, 2 head_dim], [.., M]; undefined without a hidden layer
  at::Tensor w2_, b2_;               // [n_layers, n_kv_heads, M or 2 head_dim], [n_layers, n_kv_heads]; not of DMS
};

}  // namespace

std::unique_ptr<TokenScorer> make_head_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights) {
  return std::make_unique<HeadScorer>(gate, config, weights);
}

}  // namespace kvscope::engine
