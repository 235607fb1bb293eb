#include <ATen/ATen.h>

#include <limits>

#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {
namespace {

at::Tensor feature_map(const at::Tensor& z) { return at::cat({z.softmax(-1), (-z).softmax(-1)}, -1); }

/// x [HK, B, N, in] times weight [HK, in, out], one product a head.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  return at::bmm(x.flatten(1, 2), weight).view({x.size(0), x.size(1), x.size(2), weight.size(2)});
}

}  // namespace

at::Tensor mlstm_scores(const MlstmLayer& layer, const at::Tensor& x, const at::Tensor& tokens, int delay,
                        double soft_cap) {
  const auto n_positions = x.size(2), dim = layer.wv.size(-1);
  const at::Tensor rows = x.gather(2, tokens.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}));  // [HK, B, R, 2D]
  const auto gate = [&](const at::Tensor& weight, const at::Tensor& bias) {                   // [HK, B, T]
    const at::Tensor a = project(x, weight).squeeze(-1) + bias.unsqueeze(1);
    return soft_cap == 0 ? a : at::tanh(a / soft_cap) * soft_cap;
  };
  const at::Tensor query = feature_map(project(rows, layer.wq));  // [HK, B, R, D]
  const at::Tensor key = feature_map(project(x, layer.wk));       // [HK, B, T, D]
  const at::Tensor value = project(x, layer.wv);                  // [HK, B, T, D]
  const at::Tensor log_input = gate(layer.gi, layer.bi);
  const at::Tensor log_forget = at::log_sigmoid(gate(layer.gf, layer.bf)).cumsum(-1);

  const at::Tensor last = (tokens + delay).clamp_max(n_positions - 1);  // e of each row, [HK, B, R]
  at::Tensor log_weight =
      log_forget.gather(2, last).unsqueeze(-1) + (log_input - log_forget).unsqueeze(2);  // [HK,B,R,T]
  const at::Tensor after = at::arange(n_positions, tokens.options()) > last.unsqueeze(-1);
  log_weight = log_weight.masked_fill(after, -std::numeric_limits<double>::infinity());
  const at::Tensor weight = (log_weight - log_weight.detach().amax(-1, /*keepdim=*/true)).exp();
  const at::Tensor read = at::matmul(query, key.transpose(-1, -2)) * weight;
  const at::Tensor h = at::matmul(read, value) / read.sum(-1, /*keepdim=*/true).clamp_min(1e-6);

  const at::Tensor out = layer.out.unsqueeze(1).unsqueeze(1);  // [HK, 1, 1, 3D]
  return (at::silu(h) * out.narrow(-1, 0, dim)).sum(-1) + (rows * out.narrow(-1, dim, 2 * dim)).sum(-1) +
         layer.b.unsqueeze(1).unsqueeze(1);
}

}  // namespace kvscope::engine
