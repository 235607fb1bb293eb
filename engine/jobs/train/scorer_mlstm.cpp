#include <ATen/ATen.h>

#include <limits>

#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {
namespace {

at::Tensor map_features(const at::Tensor& z, FeatureMap map) {
  return map == FeatureMap::softmax ? z.softmax(-1) : at::cat({z.softmax(-1), (-z).softmax(-1)}, -1);
}

/// x [HK, B, N, in] times weight [HK, in, out], one product a head.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  return at::bmm(x.flatten(1, 2), weight).view({x.size(0), x.size(1), x.size(2), weight.size(2)});
}

}  // namespace

at::Tensor mlstm_scores(const MlstmLayer& layer, const at::Tensor& x, const at::Tensor& tokens,
                        const MlstmNumbers& numbers) {
  const auto n_positions = x.size(2), dim = x.size(3) / 2;
  const at::Tensor rows = x.gather(2, tokens.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}));  // [HK, B, R, 2D]
  const auto gate = [&](const at::Tensor& weight, const at::Tensor& bias) {                   // [HK, B, T]
    const at::Tensor a = project(x, weight).squeeze(-1) + bias.unsqueeze(1);
    return numbers.soft_cap == 0 ? a : at::tanh(a / numbers.soft_cap) * numbers.soft_cap;
  };
  const at::Tensor query = map_features(project(rows, layer.wq), numbers.feature_map);  // [HK, B, R, D]
  const at::Tensor key = map_features(project(x, layer.wk), numbers.feature_map);       // [HK, B, T, D]
  const at::Tensor value = layer.wv.defined() ? project(x, layer.wv) : x.narrow(-1, dim, dim);
  const at::Tensor log_input = gate(layer.gi, layer.bi);
  const at::Tensor log_forget = at::log_sigmoid(gate(layer.gf, layer.bf)).cumsum(-1);

  const at::Tensor last = (tokens + numbers.delay).clamp_max(n_positions - 1);  // e of each row, [HK, B, R]
  at::Tensor log_weight =
      log_forget.gather(2, last).unsqueeze(-1) + (log_input - log_forget).unsqueeze(2);  // [HK,B,R,T]
  const at::Tensor after = at::arange(n_positions, tokens.options()) > last.unsqueeze(-1);
  log_weight = log_weight.masked_fill(after, -std::numeric_limits<double>::infinity());
  const at::Tensor weight = (log_weight - log_weight.detach().amax(-1, /*keepdim=*/true)).exp();
  const at::Tensor read = at::matmul(query, key.transpose(-1, -2)) * weight;
  at::Tensor h = at::matmul(read, value) / read.sum(-1, /*keepdim=*/true).clamp_min(1e-6);
  const auto of_head = [](const at::Tensor& weight) { return weight.unsqueeze(1).unsqueeze(1); };  // [HK, 1, 1, ...]
  if (layer.norm.defined()) h = at::layer_norm(h, {dim}, {}, {}, GateConfig().norm_eps) * of_head(layer.norm);

  const at::Tensor out = of_head(layer.out), scores = (at::silu(h) * out.narrow(-1, 0, dim)).sum(-1);
  const bool skips = out.size(-1) > dim;
  return (skips ? scores + (rows * out.narrow(-1, dim, 2 * dim)).sum(-1) : scores) + of_head(layer.b);
}

}  // namespace kvscope::engine
