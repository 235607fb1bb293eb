#include "kernels/route_experts.h"

#include <cmath>
#include <vector>

#include "kernels/rule/expert_order.h"

namespace kvscope::kernels::reference {

void route_experts(const RouteExpertsArgs& args) {
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    const float* logits = args.logits + token * args.n_experts;
    std::int32_t* expert = args.expert + token * args.n_chosen;
    float* weight = args.weight + token * args.n_chosen;
    // An expert is chosen if fewer than n_chosen go before it.
    int n = 0;
    for (int e = 0; e < args.n_experts; ++e) {
      int before = 0;
      for (int other = 0; other < args.n_experts; ++other) before += goes_first(logits[other], other, logits[e], e);
      if (before < args.n_chosen) expert[n++] = e;
    }
    double sum = 0;
    for (int i = 0; i < (args.normalised ? args.n_chosen : args.n_experts); ++i)
      sum += std::exp(static_cast<double>(logits[args.normalised ? expert[i] : i]) - logits[expert[0]]);
    for (int i = 0; i < args.n_chosen; ++i)
      weight[i] = static_cast<float>(std::exp(static_cast<double>(logits[expert[i]]) - logits[expert[0]]) / sum);
  }
}

}  // namespace kvscope::kernels::reference
