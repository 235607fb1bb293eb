#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/logit_summary.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

/// The greatest of some logits and the sum of exp(logit - greatest). NaN anywhere makes the sum NaN.
struct Part {
  float greatest;
  std::int32_t best;  // -1: none
  float sum;
};
static_assert(sizeof(Part) <= 16);
static_assert(kWarps <= 32);

__device__ inline float scaled(const Part& part, float greatest) {
  return part.best < 0 ? part.sum : part.sum * expf(part.greatest - greatest);
}

/// Of equal logits the lower id, so that the order of merging decides nothing.
__device__ inline Part merge(const Part& a, const Part& b) {
  const bool takes_b =
      b.best >= 0 && (a.best < 0 || b.greatest > a.greatest || (b.greatest == a.greatest && b.best < a.best));
  Part out = takes_b ? b : a;
  out.sum = out.best < 0 ? a.sum + b.sum : scaled(a, out.greatest) + scaled(b, out.greatest);
  return out;
}

__device__ inline void add(Part& part, float logit, std::int32_t id) {
  if (isnan(logit)) {
    part.sum = logit;
  } else if (logit > -INFINITY) {
    part = merge(part, {logit, id, 1.0f});
  }
}

/// Of a warp, in every lane.
__device__ inline Part merge_warp(Part part) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Part other = {__shfl_xor_sync(kFullWarp, part.greatest, offset),
                        __shfl_xor_sync(kFullWarp, part.best, offset), __shfl_xor_sync(kFullWarp, part.sum, offset)};
    // The lower lane's part stands first on both sides, so that both round alike.
    part = (threadIdx.x & offset) == 0 ? merge(part, other) : merge(other, part);
  }
  return part;
}

__device__ inline Part nothing() { return {0, -1, 0}; }

// Each block of a row sums its share up; the last to finish adds up the blocks.
template <int kRows>
__global__ void logit_summary_kernel(const __grid_constant__ RowArgs<LogitSummaryArgs, kRows> rows_of_launch) {
  const LogitSummaryArgs& args = rows_of_launch.of(blockIdx.y);
  __shared__ Part of_warp[kWarps];
  auto* counter = static_cast<unsigned*>(args.scratch);
  auto* parts = reinterpret_cast<float4*>(args.scratch) + 1;
  let_next_start();
  wait_for_previous();
  Part part = nothing();
  for (long long i = blockIdx.x * kThreads + threadIdx.x; i < args.n; i += gridDim.x * kThreads) {
    add(part, args.logits[i], static_cast<std::int32_t>(i));
  }
  part = merge_warp(part);
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) of_warp[threadIdx.x / 32] = part;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  // One warp does the rest: sixteen parts, then those of 64 blocks, are a few shuffles. A thread that merged them one after
  // the other made this kernel take 33 us.
  part = merge_warp(lane < kWarps ? of_warp[lane] : nothing());
  bool is_last = false;
  if (lane == 0) {
    __stcg(parts + blockIdx.x, make_float4(part.greatest, __int_as_float(part.best), part.sum, 0));
    __threadfence();
    is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0: ready for the next call
  }
  if (!__shfl_sync(kFullWarp, is_last, 0)) return;
  __threadfence();
  Part all = nothing();
  for (unsigned block = lane; block < gridDim.x; block += 32) {
    const float4 bits = __ldcg(parts + block);
    all = merge(all, {bits.x, __float_as_int(bits.y), bits.z});
  }
  all = merge_warp(all);
  if (lane != 0) return;
  const float log_sum_exp = all.best < 0 ? (isnan(all.sum) ? all.sum : -INFINITY) : all.greatest + logf(all.sum);
  *args.out = {all.best, all.best < 0 ? -INFINITY : all.greatest, log_sum_exp, 0};
}

}  // namespace

void cuda::logit_summary(std::span<const LogitSummaryArgs> rows, Stream stream) {
  const auto one_kind = [](const LogitSummaryArgs&) { return 0; };
  launch_rows(rows, one_kind, [&]<int kRows>(const RowArgs<LogitSummaryArgs, kRows>& launched, unsigned n) {
    launch_dependent(logit_summary_kernel<kRows>, dim3(kLogitSummaryBlocks, n), kThreads, 0, stream, launched);
  });
}

}  // namespace kvscope::kernels
