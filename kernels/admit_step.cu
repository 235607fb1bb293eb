#include "kernels/admit_step.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mlstm_scorer.cuh"
#include "kernels/cuda/norm_rotate.cuh"
#include "kernels/cuda/retain.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/rule/score_ring.h"

// One block a row and KV head does everything between the QKV product and attention, or a cluster where it runs the scorer
// too. A launch for each part would cost more than the parts: 2 us each, six of them, in each of 36 layers.

namespace kvscope::kernels {
namespace {

constexpr int kClusterBlocks = 8;  // of a KV head with the scorer

/// Threads of a block of a kernel with kScorerBlocks blocks a KV head for the scorer, 0: no scorer.
template <int kScorerBlocks>
constexpr int kThreadsOf = kScorerBlocks == 0   ? 256
                           : kScorerBlocks == 1 ? 1024
                                                : 512;

/// row[channel] = 0, by one warp; nothing for channel -1.
__device__ inline void clear_channel(float* row, int channel) {
  if (channel < 0) return;
  if (threadIdx.x % 32 == 0) row[channel] = 0;
  __syncwarp();
}

template <typename T, int kHeadDim, int kScorerBlocks, int kRows>
__global__ void __launch_bounds__(kThreadsOf<kScorerBlocks>, 1)
    admit_step_kernel(const __grid_constant__ RowArgs<AdmitStepArgs, kRows> rows_of_launch) {
  const AdmitStepArgs& args = rows_of_launch.of(blockIdx.y);
  constexpr bool kHasScorer = kScorerBlocks > 0;
  constexpr int kBlocks = kHasScorer ? kScorerBlocks : 1;
  constexpr int kThreads = kThreadsOf<kScorerBlocks>, kWarps = kThreads / 32;
  __shared__ float rows[kWarps][kHeadDim];
  __shared__ MlstmShared<kHeadDim, kThreads, kBlocks> scorer;
  __shared__ Scan of_warp[kWarps];
  __shared__ std::int32_t shared_slot;
  const int head = blockIdx.x / kBlocks, rank = blockIdx.x % kBlocks;
  const int group = args.n_heads / args.cache.n_kv_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  let_next_start();
  if constexpr (kHasScorer) Meeting(kBlocks).arrive();
  if constexpr (kHasScorer) prefetch_mlstm<kHeadDim, kThreads, kBlocks>(args.scorer, head, rank);
  wait_for_previous();

  const std::int32_t position = *args.position;
  const auto* qkv = static_cast<const T*>(args.qkv);
  // The group's queries, then the key; of these the scorer's other blocks need the key alone.
  for (int i = rank == 0 ? warp : warp + group; i <= group; i += kWarps) {
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
    score = mlstm_score<kHeadDim, kThreads, kBlocks>(args.scorer, head, rank, position, scorer);
    if (rank != 0) return;
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

/// Blocks of a KV head for the scorer.
int scorer_blocks(const AdmitStepArgs& args) {
  if (args.scorer.project == nullptr) return 0;
  return device_traits().has_dependent_launch ? kClusterBlocks : 1;
}

template <typename T, int kHeadDim, int kRows>
void launch(const RowArgs<AdmitStepArgs, kRows>& rows, unsigned n, Stream stream) {
  const dim3 grid(rows.row[0].cache.n_kv_heads, n);
  switch (scorer_blocks(rows.row[0])) {
    case 0:
      return launch_dependent(admit_step_kernel<T, kHeadDim, 0, kRows>, grid, kThreadsOf<0>, 0, stream, rows);
    case 1:
      return launch_dependent(admit_step_kernel<T, kHeadDim, 1, kRows>, grid, kThreadsOf<1>, 0, stream, rows);
    default:
      launch_dependent_clusters(admit_step_kernel<T, kHeadDim, kClusterBlocks, kRows>, grid, kClusterBlocks,
                                kThreadsOf<kClusterBlocks>, 0, stream, rows);
  }
}

}  // namespace

void cuda::admit_step(std::span<const AdmitStepArgs> rows, Stream stream) {
  dispatch_dtype(rows.front().cache.dtype, [&]<typename T>() {
    dispatch_head_dim("admit_step", rows.front().cache.head_dim, [&]<int kHeadDim>() {
      launch_rows(rows, scorer_blocks,
                  [&](const auto& launched, unsigned n) { launch<T, kHeadDim>(launched, n, stream); });
    });
  });
}

}  // namespace kvscope::kernels
