#include "kernels/route_experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"
#include "kernels/rule/expert_order.h"

namespace kvscope::kernels::cpu {

void route_experts(const RouteExpertsArgs& args) {
  parallel_for(args.n_tokens, 20L * args.n_experts, [&](std::int64_t token) {
    const float* logits = args.logits + token * args.n_experts;
    std::int32_t order[kMaxRoutedExperts];
    std::iota(order, order + args.n_experts, 0);
    std::partial_sort(order, order + args.n_chosen, order + args.n_experts,
                      [&](std::int32_t a, std::int32_t b) { return goes_first(logits[a], a, logits[b], b); });
    const float greatest = logits[order[0]];
    std::sort(order, order + args.n_chosen);
    float* weight = args.weight + token * args.n_chosen;
    for (int i = 0; i < args.n_chosen; ++i) weight[i] = logits[order[i]];
    std::copy(order, order + args.n_chosen, args.expert + token * args.n_chosen);
    const float chosen = exp_and_sum(weight, greatest, args.n_chosen);
    const float sum = args.normalised ? chosen : sum_of_exp(logits, greatest, args.n_experts);
    for (int i = 0; i < args.n_chosen; ++i) weight[i] /= sum;
  });
}

}  // namespace kvscope::kernels::cpu
