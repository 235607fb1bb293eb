#include "kernels/cuda/check.h"
#include "kernels/cuda/retain.cuh"
#include "kernels/retain_step.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

// One block per KV head.
__global__ void retain_step_kernel(RetainStepArgs args) {
  __shared__ Scan of_warp[kThreads / 32];
  const int head = blockIdx.x;
  const HeadContest contest = contest_of(args.policy, head, args.position, args.score ? args.score[head] : 0.0f);
  const std::int32_t n_slots = args.cache.n_slots[head];
  search_slots<kThreads>(args.cache, contest, head, n_slots, of_warp);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const RetainDecision decision = decide_found(args.cache, contest, head, merged<kThreads>(of_warp), n_slots);
  args.decision[head] = decision;
  args.slot[head] = decision.slot;
}

}  // namespace

void cuda::retain_step(const RetainStepArgs& args, Stream stream) {
  retain_step_kernel<<<args.cache.n_kv_heads, kThreads, 0, stream>>>(args);
  check_launch();
}

}  // namespace kvscope::kernels
