#pragma once
// Who does what of the mLSTM scorer's step (mlstm_scorer.cuh): the shares of blocks and threads, their shared memory, and what
// a thread reads before it is needed.

#include "kernels/admit_step.h"
#include "kernels/cuda/launch.cuh"

namespace kvscope::kernels {

/// How the work on kRows rows is dealt out. Of the rows of a cluster, row i is block i's own.
template <int kHeadDim_, int kThreads_, int kBlocks_, int kRows_, bool kSoftmaxMap_ = false>
struct MlstmShape {
  static constexpr int kHeadDim = kHeadDim_, kThreads = kThreads_, kBlocks = kBlocks_, kRows = kRows_;
  static constexpr bool kSoftmaxMap = kSoftmaxMap_;
  static constexpr int kMap = kSoftmaxMap ? kHeadDim : kHeadDim / 2;  // columns of W_q, and of W_k
  static constexpr int kInputs = 2 * kHeadDim, kOutputs = 2 * kMap + kHeadDim, kStride = kOutputs + 3;  // of W
  static constexpr int kColumns = kOutputs / kBlocks;               // of W that a block projects
  static constexpr int kGroups = kThreads / kColumns;               // of threads, to which inputs are dealt out
  static constexpr int kShare = (kInputs + kGroups - 1) / kGroups;  // inputs of a group
  static constexpr int kAhead = kThreads > 512 ? 16 : 32;           // for which there are registers
  static constexpr int kHeld = kShare < kAhead ? kShare : kAhead;   // of the share those whose weights are read ahead
  static constexpr int kUnroll = kShare <= 128 ? 128 : 16;          // of the others
  static constexpr int kStateRows = kHeadDim / kBlocks;             // of the memory that a block updates
  static constexpr int kStateGroups = kThreads / kHeadDim < kStateRows ? kThreads / kHeadDim : kStateRows;
  static constexpr int kStateShare = (kStateRows + kStateGroups - 1) / kStateGroups;
  static constexpr int kStateHeld = kStateShare < 16 ? kStateShare : 16;  // of the share what is read ahead
  static_assert(kOutputs % kBlocks == 0 && kHeadDim % kBlocks == 0 && kGroups >= 1 && kStateGroups >= 1);
  static_assert(kThreads >= 128 && kInputs % 32 == 0 && kRows <= kBlocks);
};

/// Shared memory of the scorer, in floats.
template <typename Shape>
struct alignas(16) MlstmShared {
  float x[Shape::kRows][Shape::kInputs];   // k, v of the new tokens: to be filled by the caller, in every block
  float y[Shape::kRows][Shape::kOutputs];  // W x
  float gate[Shape::kRows][3];             // log i, log f, direct
  float keep[Shape::kRows], admit[Shape::kRows], m[Shape::kRows];
  float q[Shape::kRows][Shape::kHeadDim];  // q~ of the token that is read
  float k_new[Shape::kRows][Shape::kHeadDim];
  float q_new[Shape::kHeadDim];  // of the block's own row
  float partial[Shape::kRows][Shape::kThreads];
  float h[Shape::kBlocks][Shape::kHeadDim];  // of the block's own row: what each block read of its share of the memory
  float sums[Shape::kThreads / 32];
  float direct;  // of the block's own row, of the token that is read
};

/// Where a block is: which rows, which of the blocks, which head.
struct AdmitPlace {
  const AdmitStepArgs* rows;  // of the cluster
  int n_rows, head, rank;

  __device__ bool has_own() const { return rank < n_rows; }
  __device__ const AdmitStepArgs& own() const { return rows[has_own() ? rank : 0]; }
};

/// Of the ring of a token at `position` the cell that it reads, then writes.
__device__ inline long long mlstm_cell(const MlstmScorerView& s, int head, std::int32_t position) {
  return static_cast<long long>(head) * s.delay + position % s.delay;
}

/// What a thread reads of the weights and of the memory, before they are needed.
template <typename Shape>
struct MlstmHeld {
  float weight[Shape::kHeld];
  float of_gate[Shape::kInputs / 32], bias;
  float c[Shape::kRows][Shape::kStateHeld];
  float z, read;  // of the block's own row

  __device__ static const float* weights(const AdmitPlace& at) {
    return at.rows[0].scorer.project + static_cast<long long>(at.head) * Shape::kInputs * Shape::kStride;
  }
  /// Of input i of this thread's, if there is one.
  __device__ static int input(int i) { return static_cast<int>(threadIdx.x) / Shape::kColumns * Shape::kShare + i; }
  __device__ static bool has_input(int i) {
    if (Shape::kGroups * Shape::kColumns == Shape::kThreads && Shape::kGroups * Shape::kShare == Shape::kInputs)
      return true;
    return threadIdx.x < Shape::kGroups * Shape::kColumns && input(i) < Shape::kInputs;
  }
  __device__ static float read_weight(const AdmitPlace& at, int i) {
    return weights(at)[input(i) * Shape::kStride + at.rank * Shape::kColumns + threadIdx.x % Shape::kColumns];
  }
  /// Whether this warp computes a gate of the block's own row: gate `warp`.
  __device__ static bool has_gate(const AdmitPlace& at) { return at.has_own() && threadIdx.x < 96; }

  /// Whether this thread has a column of the block's own row.
  __device__ static bool has_column(const AdmitPlace& at) { return at.has_own() && threadIdx.x < Shape::kHeadDim; }

  /// Row i of the memory of this thread's, among all.
  __device__ static int state_row(int rank, int i) {
    return rank * Shape::kStateRows + static_cast<int>(threadIdx.x) / Shape::kHeadDim * Shape::kStateShare + i;
  }
  __device__ static bool has_state(int rank, int i) {
    if (Shape::kStateGroups * Shape::kHeadDim == Shape::kThreads &&
        Shape::kStateGroups * Shape::kStateShare == Shape::kStateRows)
      return true;
    return threadIdx.x < Shape::kStateGroups * Shape::kHeadDim && state_row(rank, i) < (rank + 1) * Shape::kStateRows;
  }
  __device__ static float* state(const AdmitPlace& at, int row, int i) {
    return at.rows[row].scorer.c +
           (static_cast<long long>(at.head) * Shape::kHeadDim + state_row(at.rank, i)) * Shape::kHeadDim +
           threadIdx.x % Shape::kHeadDim;
  }
  /// What is there before the step. No other thread writes it.
  __device__ float state_of(const AdmitPlace& at, int row, int i) const {
    return i < Shape::kStateHeld ? c[row][i < Shape::kStateHeld ? i : 0] : *state(at, row, i);
  }

  /// May run before the kernel before has ended: nobody writes weights, and of the memory nothing is read yet.
  __device__ void begin(const AdmitPlace& at) {
#pragma unroll
    for (int i = 0; i < Shape::kHeld; ++i) weight[i] = has_input(i) ? read_weight(at, i) : 0.0f;
    if (has_gate(at)) {
#pragma unroll
      for (int i = 0; i < Shape::kInputs / 32; ++i)
        of_gate[i] = weights(at)[(threadIdx.x % 32 + 32 * i) * Shape::kStride + Shape::kOutputs + threadIdx.x / 32];
      bias = at.own().scorer.bias[at.head * 3 + threadIdx.x / 32];
    }
    if (has_column(at)) read = at.own().scorer.read[at.head * Shape::kHeadDim + threadIdx.x];
    constexpr int kState = Shape::kStateRows * Shape::kHeadDim, kLines = kState / 32;
    for (int i = threadIdx.x; i < at.n_rows * kLines; i += Shape::kThreads)
      prefetch_to_l2(at.rows[i / kLines].scorer.c +
                     static_cast<long long>(at.head) * Shape::kHeadDim * Shape::kHeadDim + at.rank * kState +
                     i % kLines * 32);
    if (at.has_own()) prefetch_own(at.own().scorer, at.head, __ldcg(at.own().position));
  }
  /// An old position only asks for what is not needed.
  __device__ static void prefetch_own(const MlstmScorerView& s, int head, std::int32_t position) {
    const int column = threadIdx.x * 32;
    if (column >= Shape::kHeadDim || position < 0) return;
    prefetch_to_l2(s.z + head * Shape::kHeadDim + column);
    prefetch_to_l2(s.m + head);
    if (s.delay == 0) return;
    prefetch_to_l2(s.queries + mlstm_cell(s, head, position) * Shape::kHeadDim + column);
    prefetch_to_l2(s.direct + mlstm_cell(s, head, position));
  }
  __device__ void read_state(const AdmitPlace& at) {
#pragma unroll
    for (int row = 0; row < Shape::kRows; ++row) {
#pragma unroll
      for (int i = 0; i < Shape::kStateHeld; ++i)
        c[row][i] = row < at.n_rows && has_state(at.rank, i) ? *state(at, row, i) : 0.0f;
    }
    if (has_column(at)) z = at.own().scorer.z[at.head * Shape::kHeadDim + threadIdx.x];
  }
};

}  // namespace kvscope::kernels
