#pragma once
// One block a row and KV head does everything between the QKV product and attention. A launch for each part would cost more
// than the parts: 2 us each, six of them, in each of 36 layers. Where it runs the scorer too it is a cluster of blocks, for
// several rows of a head at once: they share the scorer's weights, and each has a block of the cluster for what is its own.

#include "kernels/admit_step.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mlstm_scorer.cuh"
#include "kernels/cuda/norm_rotate.cuh"
#include "kernels/cuda/retain.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/rule/score_ring.h"

namespace kvscope::kernels {
namespace admit {

constexpr int kClusterBlocks = 8;  // of a KV head with the scorer

/// Heads of more than 128 channels have four times the weights and the memory: more threads share them, fewer rows.
template <int kHeadDim>
constexpr bool kIsWide = kHeadDim > 128;
template <int kHeadDim>
constexpr int kMostRows = kIsWide<kHeadDim> ? 2 : 4;  // of a cluster

/// Threads of a block of a kernel with kScorerBlocks blocks a KV head for the scorer, 0: no scorer.
template <int kHeadDim, int kScorerBlocks>
constexpr int kThreadsOf = kScorerBlocks == 1  ? 1024
                           : kIsWide<kHeadDim> ? 512
                                               : 256;

/// Blocks that a multiprocessor should have room for. With 3, the scorer's of 16 rows and 8 KV heads all run at once. On an H200
/// such a step takes 24.5 us with 2 (more registers), 18.3 with 3, 21.6 with 4 (fewer).
template <int kHeadDim, int kScorerBlocks>
constexpr int kLeastBlocks = kScorerBlocks > 1 && !kIsWide<kHeadDim> ? 3 : 1;

/// row[channel] = 0, by one warp; nothing for channel -1.
__device__ inline void clear_channel(float* row, int channel) {
  if (channel < 0) return;
  if (threadIdx.x % 32 == 0) row[channel] = 0;
  __syncwarp();
}

/// A head of q, which goes to where it belongs, or of k to `buffer`, normed and rotated, by one warp.
template <typename T, typename Shape>
__device__ void admit_normed(const AdmitStepArgs& args, int head_of_qkv, int zero, float* buffer) {
  const bool is_key = head_of_qkv >= args.n_heads;
  const long long at = static_cast<long long>(head_of_qkv) * Shape::kHeadDim;
  norm_row<T, Shape::kHeadDim>(static_cast<const T*>(args.qkv) + at,
                               static_cast<const T*>(is_key ? args.k_norm : args.q_norm), args.eps, args.norm_offset,
                               buffer);
  clear_channel(buffer, zero);
  rotate_row<T, Shape::kHeadDim>(buffer, args.inv_freq, static_cast<float>(*args.position), args.attention_scaling);
  clear_channel(buffer, zero);
  for (int d = threadIdx.x % 32; d < Shape::kHeadDim && !is_key; d += 32)
    static_cast<T*>(args.q)[at + d] = from_float<T>(buffer[d]);
  __syncwarp();
}

/// k and v of all rows to shared.x, q of the block's own row to where it belongs, and what the scorer keeps of a row.
template <typename T, typename Shape, bool kHasScorer>
__device__ void admit_qkv(const AdmitPlace& at, MlstmShared<Shape>& shared) {
  constexpr int kWarps = Shape::kThreads / 32;
  __shared__ float rows[kWarps][Shape::kHeadDim];
  const int group = at.own().n_heads / at.own().cache.n_kv_heads, n_jobs = 2 * at.n_rows + (at.has_own() ? group : 0);
  for (int warp = threadIdx.x / 32, job = warp; job < n_jobs; job += kWarps) {
    const int i = job - 2 * at.n_rows, row = job % at.n_rows;
    const AdmitStepArgs& args = i < 0 ? at.rows[row] : at.own();
    if (i >= 0) {
      admit_normed<T, Shape>(args, at.head * group + i, i == 0 ? args.zero_channel : -1, rows[warp]);
    } else if (job >= at.n_rows) {
      admit_normed<T, Shape>(args, args.n_heads + at.head, -1, shared.x[row]);
    } else {
      const T* value = static_cast<const T*>(args.qkv) +
                       static_cast<long long>(args.n_heads + args.cache.n_kv_heads + at.head) * Shape::kHeadDim;
#pragma unroll
      for (int d = threadIdx.x % 32; d < Shape::kHeadDim; d += 32)
        shared.x[row][Shape::kHeadDim + d] = to_float(value[d]);
      if constexpr (kHasScorer) mlstm_recall(at, row, shared);
    }
  }
}

/// Asks for what no kernel writes.
template <typename T, int kHeadDim>
__device__ void prefetch_constants(const AdmitStepArgs& args) {
  const int at = threadIdx.x * 128;
  if (at < kHeadDim / 2 * 4) prefetch_to_l2(reinterpret_cast<const char*>(args.inv_freq) + at);
  if (args.q_norm == nullptr || args.k_norm == nullptr || at >= kHeadDim * static_cast<int>(sizeof(T))) return;
  prefetch_to_l2(static_cast<const char*>(args.q_norm) + at);
  prefetch_to_l2(static_cast<const char*>(args.k_norm) + at);
}

template <typename T, int kHeadDim, int kScorerBlocks, int kRowsOfCluster, int kRows, bool kSoftmaxMap>
__global__ void __launch_bounds__(kThreadsOf<kHeadDim, kScorerBlocks>, kLeastBlocks<kHeadDim, kScorerBlocks>)
    admit_step_kernel(const __grid_constant__ RowArgs<AdmitStepArgs, kRows> rows_of_launch, int n_rows) {
  constexpr bool kHasScorer = kScorerBlocks > 0;
  constexpr int kBlocks = kHasScorer ? kScorerBlocks : 1, kThreads = kThreadsOf<kHeadDim, kScorerBlocks>;
  using Shape = MlstmShape<kHeadDim, kThreads, kBlocks, kRowsOfCluster, kSoftmaxMap>;
  extern __shared__ float4 shared_memory[];
  auto& shared = *reinterpret_cast<MlstmShared<Shape>*>(shared_memory);
  __shared__ Scan of_warp[kThreads / 32];
  __shared__ std::int32_t shared_slot;
  const int first = blockIdx.y * kRowsOfCluster, head = blockIdx.x / kBlocks;
  const AdmitPlace at = {&rows_of_launch.of(first), min(n_rows - first, kRowsOfCluster), head,
                         static_cast<int>(blockIdx.x % kBlocks)};
  const AdmitStepArgs& args = at.own();
  MlstmHeld<Shape> held;

  let_next_start();
  if constexpr (kHasScorer) {
    Meeting(kBlocks).arrive();
    held.begin(at);
  }
  if (at.has_own()) prefetch_slots<kThreads>(args.cache, head);
  prefetch_constants<T, kHeadDim>(args);
  wait_for_previous();

  const std::int32_t position = *args.position, n_slots = args.cache.n_slots[head];
  admit_qkv<T, Shape, kHasScorer>(at, shared);
  __syncthreads();
  if constexpr (kHasScorer) mlstm_project(at, held, shared);
  // The search needs no score: it fills the time in which the cluster meets, and so does what follows it.
  HeadContest contest = contest_of(args.policy, head, position, 0);
  if (at.has_own()) search_slots<kThreads>(args.cache, contest, head, n_slots, of_warp);
  float score = args.score && !kHasScorer ? args.score[head] : 0.0f;
  if constexpr (kHasScorer) {
    mlstm_absorb(at, held, shared);
  } else {
    __syncthreads();
  }
  const Scan scan = threadIdx.x == 0 && at.has_own() ? merged<kThreads>(of_warp) : nothing_found();
  if constexpr (kHasScorer) score = mlstm_score(at, held, shared);
  if (!at.has_own()) return;

  if (threadIdx.x == 0) {  // the one that decides
    if (kHasScorer && args.score) args.score[head] = score;
    contest.score = score;
    if (args.score_ring) {
      float* ring = args.score_ring + static_cast<long long>(head) * (args.policy.window + 1);
      contest.score = through_ring(ring, args.policy.window, args.score_delay, position, score);
    }
    const RetainDecision decision = decide_found(args.cache, contest, head, scan, n_slots);
    args.decision[head] = decision;
    shared_slot = decision.slot;
    args.cache.slot_position[slot_row(args.cache, head) + decision.slot] = position;
  }
  __syncthreads();
  if (threadIdx.x >= kHeadDim) return;
  const long long slot = slot_offset(args.cache, head, shared_slot) + threadIdx.x;
  static_cast<T*>(args.cache.k_pool)[slot] = from_float<T>(shared.x[at.rank][threadIdx.x]);
  static_cast<T*>(args.cache.v_pool)[slot] = from_float<T>(shared.x[at.rank][kHeadDim + threadIdx.x]);
}

/// Blocks of a KV head for the scorer.
inline int scorer_blocks(const AdmitStepArgs& args) {
  if (args.scorer.project == nullptr) return 0;
  return device_traits().has_dependent_launch ? kClusterBlocks : 1;
}

/// A launch of n rows, of which a cluster has kRowsOfCluster.
template <typename T, int kHeadDim, int kScorerBlocks, int kRowsOfCluster, int kRows, bool kSoftmaxMap = false>
void launch(const RowArgs<AdmitStepArgs, kRows>& rows, int n, Stream stream) {
  constexpr int kBlocks = kScorerBlocks > 0 ? kScorerBlocks : 1, kThreads = kThreadsOf<kHeadDim, kScorerBlocks>;
  const auto kernel = admit_step_kernel<T, kHeadDim, kScorerBlocks, kRowsOfCluster, kRows, kSoftmaxMap>;
  const std::size_t shared = sizeof(MlstmShared<MlstmShape<kHeadDim, kThreads, kBlocks, kRowsOfCluster, kSoftmaxMap>>);
  const dim3 grid(rows.row[0].cache.n_kv_heads, (n + kRowsOfCluster - 1) / kRowsOfCluster);
  if constexpr (kBlocks == 1) {
    launch_dependent(kernel, grid, kThreads, shared, stream, rows, n);
  } else {
    launch_dependent_clusters(kernel, grid, kBlocks, kThreads, shared, stream, rows, n);
  }
}

template <typename T, int kHeadDim, int kRows>
void launch(const RowArgs<AdmitStepArgs, kRows>& rows, int n, Stream stream) {
  const int n_blocks = scorer_blocks(rows.row[0]);
  if (n_blocks == 0) return launch<T, kHeadDim, 0, 1>(rows, n, stream);
  // That map is for ablations: one block does all of a head, on any device.
  if (rows.row[0].scorer.softmax_map) return launch<T, kHeadDim, 1, 1, kRows, true>(rows, n, stream);
  if (n_blocks == 1) return launch<T, kHeadDim, 1, 1>(rows, n, stream);
  if constexpr (kRows == 1) {
    launch<T, kHeadDim, kClusterBlocks, 1>(rows, n, stream);
  } else if constexpr (kMostRows<kHeadDim> == 2) {
    launch<T, kHeadDim, kClusterBlocks, 2>(rows, n, stream);
  } else {
    // Fewer rows of a cluster end sooner, as long as all clusters run at once.
    const int of_two = rows.row[0].cache.n_kv_heads * ((n + 1) / 2) * kClusterBlocks;
    if (of_two <= 2 * device_traits().n_multiprocessors) {
      launch<T, kHeadDim, kClusterBlocks, 2>(rows, n, stream);
    } else {
      launch<T, kHeadDim, kClusterBlocks, kMostRows<kHeadDim>>(rows, n, stream);
    }
  }
}

}  // namespace admit

/// Rows of a model whose heads have kHeadDim channels.
template <int kHeadDim>
void admit_heads(std::span<const AdmitStepArgs> rows, Stream stream) {
  dispatch_dtype(rows.front().cache.dtype, [&]<typename T>() {
    // Rows of one launch share the scorer's weights.
    launch_rows(
        rows, [](const AdmitStepArgs& row) { return row.scorer.project; },
        [&](const auto& launched, int n) { admit::launch<T, kHeadDim>(launched, n, stream); });
  });
}

// These compile as long as all others together, and so apart from them: admit_step_wide.cu.
extern template void admit_heads<192>(std::span<const AdmitStepArgs> rows, Stream stream);
extern template void admit_heads<256>(std::span<const AdmitStepArgs> rows, Stream stream);

}  // namespace kvscope::kernels
