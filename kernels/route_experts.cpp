#include "kernels/route_experts.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void route_experts(const RouteExpertsArgs& args, Place place) {
  const ArgumentCheck check("route_experts");
  check.range("n_tokens", args.n_tokens, 0, std::numeric_limits<std::int32_t>::max());
  check.range("n_experts", args.n_experts, 1, kMaxRoutedExperts);
  check.range("n_chosen", args.n_chosen, 1, args.n_experts);
  if (args.n_tokens == 0) return;
  check.pointers({{"logits", args.logits}, {"expert", args.expert}, {"weight", args.weight}});
  KVSCOPE_RUN(route_experts, args, place);
}

}  // namespace kvscope::kernels
