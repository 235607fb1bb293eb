#include "engine/jobs/train/gated_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace kvscope::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kGateChannels = 8;  // the library wants a head of a multiple of 8; two of them are used

/// One call of the library, and what its backward pass wants back.
struct Flash {
  at::Tensor out, log_sum;  // [B, T, H, D], [B, H, T] float32
  at::Tensor rng_state, unused;
};

/// left: keys before the query that it sees, or -1 for all.
Flash flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t left, double scale) {
  auto [out, log_sum, rng_state, unused, mask] = at::_flash_attention_forward(
      q, k, v, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, q.size(1), k.size(1), /*dropout_p=*/0, /*is_causal=*/left < 0,
      /*return_debug_mask=*/false, scale, left, left < 0 ? -1 : 0);
  return {out, log_sum, rng_state, unused};
}

/// Gradients of q, k, v where `out` and `log_sum` may be of more keys than these: each probability is exp(score - log_sum),
/// and its gradient needs grad . out alone.
variable_list flash_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& out, const at::Tensor& log_sum, const at::Tensor& rng_state,
                             const at::Tensor& unused, std::int64_t left, double scale) {
  auto [dq, dk, dv] = at::_flash_attention_backward(grad, q, k, v, out, log_sum, /*cum_seq_q=*/{}, /*cum_seq_k=*/{},
                                                    q.size(1), k.size(1), /*dropout_p=*/0, /*is_causal=*/left < 0,
                                                    rng_state, unused, scale, left, left < 0 ? -1 : 0);
  return {dq, dk, dv};
}

/// x with kGateChannels more channels of `value`.
at::Tensor widen(const at::Tensor& x, double value) {
  return at::cat({x, at::full({x.size(0), x.size(1), x.size(2), kGateChannels}, value, x.options())}, -1);
}

/// Keys whose product with a query that is widened by 1 is scale q . k + log_gate, times 1 / scale.
at::Tensor widen_by_gate(const at::Tensor& k, const at::Tensor& log_gate, double scale) {
  const at::Tensor gate = (log_gate / scale).transpose(1, 2).unsqueeze(-1);  // [B, T, HK, 1] float32
  const at::Tensor high = gate.to(k.scalar_type()), low = (gate - high.to(at::kFloat)).to(k.scalar_type());
  const at::Tensor none = at::zeros({k.size(0), k.size(1), k.size(2), kGateChannels - 2}, k.options());
  return at::cat({k, high, low, none}, -1);
}

class FlashGatedAttention : public torch::autograd::Function<FlashGatedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& log_gate, std::int64_t window, double scale) {
    const auto n_far = q.size(1) - window;  // queries that see a key behind the window
    const Flash near = flash_forward(q, k, v, window - 1, scale);
    Flash far;
    at::Tensor out = near.out, log_sum = near.log_sum;
    if (n_far > 0) {
      far = flash_forward(widen(q.narrow(1, window, n_far), 1),
                          widen_by_gate(k.narrow(1, 0, n_far), log_gate.narrow(2, 0, n_far), scale),
                          widen(v.narrow(1, 0, n_far), 0), -1, scale);
      const at::Tensor near_sum = near.log_sum.narrow(2, window, n_far);
      const at::Tensor both = at::logaddexp(near_sum, far.log_sum);
      const auto share = [&](const at::Tensor& part) { return (part - both).exp().transpose(1, 2).unsqueeze(-1); };
      out = near.out.clone();
      out.narrow(1, window, n_far)
          .copy_(near.out.narrow(1, window, n_far) * share(near_sum) +
                 far.out.narrow(-1, 0, q.size(-1)) * share(far.log_sum));
      log_sum = near.log_sum.clone();
      log_sum.narrow(2, window, n_far).copy_(both);
    }
    context->save_for_backward(
        {q, k, v, log_gate, out, log_sum, near.rng_state, near.unused, far.rng_state, far.unused});
    context->saved_data["window"] = window;
    context->saved_data["scale"] = scale;
    return out.reshape({q.size(0), q.size(1), -1});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_gate = saved[3], &out = saved[4],
                     &log_sum = saved[5];
    const std::int64_t window = context->saved_data["window"].toInt(), n_far = q.size(1) - window, dim = q.size(-1);
    const double scale = context->saved_data["scale"].toDouble();
    const at::Tensor grad = gradients[0].reshape(out.sizes()).contiguous();
    variable_list result =
        flash_backward(grad, q, k, v, out, log_sum, saved[6], saved[7], window - 1, scale);  // near: dq, dk, dv
    at::Tensor gate_gradient = at::zeros_like(log_gate);
    if (n_far > 0) {
      const auto late = [&](const at::Tensor& x) { return x.narrow(1, window, n_far); };
      const auto early = [&](const at::Tensor& x) { return x.narrow(1, 0, n_far); };
      const variable_list far = flash_backward(
          widen(late(grad), 0), widen(late(q), 1), widen_by_gate(early(k), log_gate.narrow(2, 0, n_far), scale),
          widen(early(v), 0), widen(late(out), 0), log_sum.narrow(2, window, n_far).contiguous(), saved[8], saved[9],
          -1, scale);
      late(result[0]).add_(far[0].narrow(-1, 0, dim));
      early(result[1]).add_(far[1].narrow(-1, 0, dim));
      early(result[2]).add_(far[2].narrow(-1, 0, dim));
      // The channel's gradient is that of scale * channel, and channel is log_gate / scale.
      gate_gradient.narrow(2, 0, n_far).copy_(far[1].select(-1, dim).transpose(1, 2) / scale);
    }
    return {result[0], result[1], result[2], gate_gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor plain_gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& log_gate, std::int64_t window, double scale) {
  const auto n_batch = q.size(0), n_positions = q.size(1), n_kv_heads = k.size(2), group = q.size(2) / n_kv_heads;
  const auto type = at::promote_types(q.scalar_type(), at::kFloat);  // double stays double, for finite differences
  const auto head_first = [&](const at::Tensor& x) { return x.to(type).transpose(1, 2); };
  const at::Tensor queries = head_first(q).reshape({n_batch, n_kv_heads, group, n_positions, -1});
  const at::Tensor keys = head_first(k).unsqueeze(2), values = head_first(v).unsqueeze(2);  // [B, HK, 1, T, D]
  const at::Tensor position = at::arange(n_positions, q.options().dtype(at::kLong));
  const at::Tensor distance = position.unsqueeze(1) - position;  // q - t
  at::Tensor scores = at::matmul(queries, keys.transpose(-1, -2)) * scale +
                      log_gate.unsqueeze(2).unsqueeze(2) * (distance >= window).to(type);
  scores = scores.masked_fill(distance < 0, -std::numeric_limits<double>::infinity());
  const at::Tensor out = at::matmul(scores.softmax(-1), values);  // [B, HK, G, T, D]
  return out.reshape({n_batch, q.size(2), n_positions, -1})
      .transpose(1, 2)
      .reshape({n_batch, n_positions, -1})
      .to(q.scalar_type());
}

at::Tensor gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_gate,
                           std::int64_t window, double scale) {
  constexpr std::int64_t kMostChannels = 256;  // of a head in the library's flash attention
  if (q.is_cuda() && q.scalar_type() == at::kBFloat16 && q.size(-1) + kGateChannels <= kMostChannels) {
    return FlashGatedAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), log_gate.contiguous(), window,
                                      scale);
  }
  return plain_gated_attention(q, k, v, log_gate, window, scale);
}

}  // namespace kvscope::engine
