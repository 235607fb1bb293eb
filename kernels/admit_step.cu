#include "kernels/admit_step.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mlstm_scorer.cuh"
#include "kernels/cuda/norm_rotate.cuh"
#include "kernels/cuda/retain.cuh"
#include "kernels/rule/score_ring.h"

// One block a KV head does everything between the QKV product and attention. A launch for each part would cost more
// than the parts: 2 us each, six of them, in each of 36 layers.

namespace kvscope::kernels {
namespace {

constexpr int kScorerThreads = 1024;  // the scorer reads 330 kB a head: it needs many requests in flight
constexpr int kPlainThreads = 256;

/// row[channel] = 0, by one warp; nothing for channel -1.
__device__ inline void clear_channel(float* row, int channel) {
  if (channel < 0) return;
  if (threadIdx.x % 32 == 0) row[channel] = 0;
  __syncwarp();
}

template <typename T, int kHeadDim, int kThreads>
__global__ void __launch_bounds__(kThreads, 1) admit_step_kernel(AdmitStepArgs args) {
  constexpr bool kHasScorer = kThreads == kScorerThreads;
  constexpr int kWarps = kThreads / 32;
  __shared__ float rows[kWarps][kHeadDim];
  __shared__ MlstmShared<kHeadDim, kThreads> scorer;
  __shared__ Scan of_warp[kWarps];
  __shared__ std::int32_t shared_slot;
  const int head = blockIdx.x;
  const int group = args.n_heads / args.cache.n_kv_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  let_next_start();
  if constexpr (kHasScorer) prefetch_mlstm<kHeadDim, kThreads>(args.scorer, head);
  wait_for_previous();

  const std::int32_t position = *args.position;
  const auto* qkv = static_cast<const T*>(args.qkv);
  for (int i = warp; i <= group; i += kWarps) {  // the group's queries, then the key
    const bool is_key = i == group;
    const int row = is_key ? args.n_heads + head : head * group + i;
    norm_row<T, kHeadDim>(qkv + static_cast<long long>(row) * kHeadDim,
                          static_cast<const T*>(is_key ? args.k_norm : args.q_norm), args.eps, rows[warp]);
    const int zero = i == 0 && !is_key ? args.zero_channel : -1;
    clear_channel(rows[warp], zero);
    rotate_row<T, kHeadDim>(rows[warp], args.inv_freq, static_cast<float>(position), args.attention_scaling);
    clear_channel(rows[warp], zero);
    for (int d = lane; d < kHeadDim; d += 32) {
      if (is_key) {
        scorer.x[d] = rows[warp][d];
      } else {
        static_cast<T*>(args.q)[static_cast<long long>(row) * kHeadDim + d] = from_float<T>(rows[warp][d]);
      }
    }
    __syncwarp();
  }
  const T* value = qkv + static_cast<long long>(args.n_heads + args.cache.n_kv_heads + head) * kHeadDim;
  if (threadIdx.x < kHeadDim) scorer.x[kHeadDim + threadIdx.x] = to_float(value[threadIdx.x]);
  __syncthreads();

  float score = args.score && !kHasScorer ? args.score[head] : 0.0f;
  if constexpr (kHasScorer) {
    score = mlstm_score<kHeadDim, kThreads>(args.scorer, head, position, scorer);
    if (threadIdx.x == 0 && args.score) args.score[head] = score;
  }
  if (args.score_ring && threadIdx.x == 0) {  // the one that decides
    float* ring = args.score_ring + static_cast<long long>(head) * (args.policy.window + 1);
    score = through_ring(ring, args.policy.window, args.score_delay, position, score);
  }
  const HeadContest contest = contest_of(args.policy, head, position, score);
  const RetainDecision decision = retain<kThreads>(args.cache, contest, head, of_warp);
  if (threadIdx.x == 0) {
    args.decision[head] = decision;
    shared_slot = decision.slot;
    args.cache.slot_position[slot_row(args.cache, head) + decision.slot] = position;
  }
  __syncthreads();
  if (threadIdx.x >= kHeadDim) return;
  const long long at = slot_offset(args.cache, head, shared_slot) + threadIdx.x;
  static_cast<T*>(args.cache.k_pool)[at] = from_float<T>(scorer.x[threadIdx.x]);
  static_cast<T*>(args.cache.v_pool)[at] = value[threadIdx.x];
}

}  // namespace

void cuda::admit_step(const AdmitStepArgs& args, Stream stream) {
  dispatch_dtype(args.cache.dtype, [&]<typename T>() {
    dispatch_head_dim("admit_step", args.cache.head_dim, [&]<int kHeadDim>() {
      if (args.scorer.project) {
        launch_dependent(admit_step_kernel<T, kHeadDim, kScorerThreads>, dim3(args.cache.n_kv_heads), kScorerThreads, 0,
                         stream, args);
      } else {
        launch_dependent(admit_step_kernel<T, kHeadDim, kPlainThreads>, dim3(args.cache.n_kv_heads), kPlainThreads, 0,
                         stream, args);
      }
    });
  });
}

}  // namespace kvscope::kernels
