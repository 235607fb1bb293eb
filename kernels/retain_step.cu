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
  const RetainDecision decision = retain<kThreads>(args.cache, contest, head, of_warp);
  if (threadIdx.x != 0) return;
  args.decision[head] = decision;
  args.slot[head] = decision.slot;
}

}  // namespace

void cuda::retain_step(const RetainStepArgs& args, Stream stream) {
  retain_step_kernel<<<args.cache.n_kv_heads, kThreads, 0, stream>>>(args);
  check_launch();
}

}  // namespace kvscope::kernels
