#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/route_experts.h"
#include "kernels/rule/expert_order.h"

namespace kvscope::kernels {
namespace {

constexpr int kLanes = 32;

// One warp, a block by itself, a token: chooses one expert after the other, then writes them by index.
__global__ void __launch_bounds__(kLanes) route_experts_kernel(RouteExpertsArgs args) {
  __shared__ float logit[kMaxRoutedExperts];
  __shared__ bool is_chosen[kMaxRoutedExperts];
  const int lane = threadIdx.x;
  const long long token = blockIdx.x;
  let_next_start();
  wait_for_previous();
  for (int e = lane; e < args.n_experts; e += kLanes) {
    logit[e] = args.logits[token * args.n_experts + e];
    is_chosen[e] = false;
  }
  __syncwarp();
  float greatest = 0;
  for (int i = 0; i < args.n_chosen; ++i) {
    std::int32_t best = -1;
    float best_logit = 0;
    for (int e = lane; e < args.n_experts; e += kLanes) {
      if (is_chosen[e] || !goes_first(logit[e], e, best_logit, best)) continue;
      best = e;
      best_logit = logit[e];
    }
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      const std::int32_t other = __shfl_xor_sync(kFullWarp, best, offset);
      const float other_logit = __shfl_xor_sync(kFullWarp, best_logit, offset);
      if (!goes_first(other_logit, other, best_logit, best)) continue;
      best = other;
      best_logit = other_logit;
    }
    if (i == 0) greatest = best_logit;
    if (lane == 0) is_chosen[best] = true;
    __syncwarp();
  }
  float sum = 0;
  for (int e = lane; e < args.n_experts; e += kLanes) {
    if (is_chosen[e] || !args.normalised) sum += expf(logit[e] - greatest);
  }
  sum = warp_sum(sum);
  int n = 0;  // written by all lanes
  for (int first = 0; first < args.n_experts; first += kLanes) {
    const int e = first + lane;
    const bool mine = e < args.n_experts && is_chosen[e];
    const unsigned chosen = __ballot_sync(kFullWarp, mine);
    if (mine) {
      const long long at = token * args.n_chosen + n + __popc(chosen & ((1u << lane) - 1));
      args.expert[at] = e;
      args.weight[at] = expf(logit[e] - greatest) / sum;
    }
    n += __popc(chosen);
  }
}

}  // namespace

void cuda::route_experts(const RouteExpertsArgs& args, Stream stream) {
  launch_dependent(route_experts_kernel, dim3(static_cast<unsigned>(args.n_tokens)), kLanes, 0, stream, args);
}

}  // namespace kvscope::kernels
