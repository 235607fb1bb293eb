#include "engine/model/expert_mlp.h"

#include "engine/model/ops.h"
#include "kernels/route_experts.h"

namespace kvscope::engine {

ExpertChoice choose_experts(const at::Tensor& n, const at::Tensor& router, const ExpertConfig& experts,
                            const at::Tensor& bias) {
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  const at::Tensor logits = ops::linear(n.to(at::kFloat), router.to(at::kFloat), wide_bias).contiguous();
  ExpertChoice choice = {at::empty({n.size(0), experts.per_token}, logits.options().dtype(at::kInt)),
                         at::empty({n.size(0), experts.per_token}, logits.options())};
  kernels::route_experts({.logits = logits.data_ptr<float>(),
                          .expert = choice.expert.data_ptr<std::int32_t>(),
                          .weight = choice.weight.data_ptr<float>(),
                          .n_tokens = static_cast<int>(n.size(0)),
                          .n_experts = experts.n,
                          .n_chosen = experts.per_token,
                          .normalised = experts.normalised},
                         ops::place_of(n.device()));
  return choice;
}

at::Tensor expert_mlp(const at::Tensor& n, const LayerWeights& weights, const ExpertConfig& experts,
                      MlpActivation activation) {
  const auto bias_of = [](const at::Tensor& biases, std::int64_t i) { return biases.defined() ? biases[i] : biases; };
  const ExpertChoice choice = choose_experts(n, weights.router, experts, weights.router_bias);
  // Pairs of a token and one of its experts, all of expert 0 first; of one expert in the order of the tokens.
  const at::Tensor expert = choice.expert.view({-1}).to(at::kLong);
  const at::Tensor pairs = std::get<1>(at::sort(expert, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  const at::Tensor tokens = pairs.div(experts.per_token, "floor");
  const at::Tensor pair_weights = choice.weight.view({-1, 1}).index_select(0, pairs);
  const at::Tensor counts = at::bincount(expert, {}, experts.n).cpu();
  at::Tensor sum = at::zeros(n.sizes(), n.options().dtype(at::kFloat));
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < experts.n; ++i) {
    const std::int64_t count = counts.data_ptr<std::int64_t>()[i];
    if (count == 0) continue;
    const at::Tensor rows = tokens.narrow(0, first, count);
    const at::Tensor gate_up =
        ops::linear(n.index_select(0, rows), weights.gate_up[i], bias_of(weights.gate_up_bias, i));
    const at::Tensor y =
        ops::linear(ops::glu(gate_up, activation), weights.down[i], bias_of(weights.down_bias, i)).to(at::kFloat);
    sum.index_add_(0, rows, y.mul_(pair_weights.narrow(0, first, count)));  // each token once: one order of the sum
    first += count;
  }
  return sum.to(n.scalar_type());
}

}  // namespace kvscope::engine
