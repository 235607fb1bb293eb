#pragma once
// The delayed mLSTM scorer of KVpop for one new token and KV head (kernels/admit_step.h), by the kBlocks blocks of a cluster,
// or by one block where the device has no clusters. A head's weights and memory are 330 KB, which one multiprocessor reads in
// 20 us: each block projects a share of the columns and updates a share of the memory's rows, and the first one has the score.

#include "kernels/admit_step.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels {

/// Shared memory of mlstm_score(), in floats.
template <int kHeadDim, int kThreads, int kBlocks>
struct MlstmShared {
  float x[2 * kHeadDim];  // k, v of the new token: to be filled by the caller, in every block
  float y[2 * kHeadDim];  // W x
  float gate[3];          // log i, log f, direct
  float q[kHeadDim];      // q~ of the token that is read
  float q_new[kHeadDim];
  float k_new[kHeadDim];
  float partial[kThreads];
  float h[kBlocks][kHeadDim];  // of the first block: what each block read of its rows
  float sums[kThreads / 32];
  float score;
};

/// Brings what this block of the scorer will read into the second-level cache; may run before the kernel before has ended.
template <int kHeadDim, int kThreads, int kBlocks>
__device__ inline void prefetch_mlstm(const MlstmScorerView& s, int head, int rank) {
  constexpr int kInputs = 2 * kHeadDim, kStride = kInputs + 3, kColumns = kInputs / kBlocks;
  constexpr int kLines = (kColumns * 4 + 127) / 128 + 1;  // of 128 bytes that a row's share may touch
  const float* weight = s.project + static_cast<long long>(head) * kInputs * kStride + rank * kColumns;
  for (int i = threadIdx.x; i < kInputs * kLines; i += kThreads) {
    const int column = i % kLines * 32;
    prefetch_to_l2(weight + i / kLines * kStride + (column < kColumns ? column : kColumns - 1));
  }
  constexpr int kState = kHeadDim * kHeadDim / kBlocks;
  const float* c = s.c + static_cast<long long>(head) * kHeadDim * kHeadDim + rank * kState;
  for (int i = threadIdx.x * 32; i < kState; i += kThreads * 32) prefetch_to_l2(c + i);
}

/// y = W x, this block's columns of q, k and v for all blocks, and the three gates in each. Rows are dealt out to groups of
/// threads; a column's parts are added up in one order.
template <int kHeadDim, int kThreads, int kBlocks>
__device__ void mlstm_project(const MlstmScorerView& s, int head, int rank,
                              MlstmShared<kHeadDim, kThreads, kBlocks>& shared) {
  constexpr int kInputs = 2 * kHeadDim, kStride = kInputs + 3;
  constexpr int kColumns = kInputs / kBlocks, kGroups = kThreads / kColumns;
  static_assert(kInputs % kBlocks == 0 && kGroups >= 1 && kThreads >= 128);
  const float* weight = s.project + static_cast<long long>(head) * kInputs * kStride;
  const int group = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  float sum = 0;
  if (group < kGroups) {
#pragma unroll 16
    for (int row = group; row < kInputs; row += kGroups)
      sum += weight[row * kStride + rank * kColumns + column] * shared.x[row];
  }
  shared.partial[threadIdx.x] = sum;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < 3) {
    float gate = 0;
    for (int row = lane; row < kInputs; row += 32) gate += weight[row * kStride + kInputs + warp] * shared.x[row];
    gate = warp_sum(gate) + s.bias[head * 3 + warp];
    if (s.soft_cap > 0 && warp < 2) gate = tanhf(gate / s.soft_cap) * s.soft_cap;
    if (warp == 1) gate = fminf(gate, 0.0f) - log1pf(expf(-fabsf(gate)));  // log sigmoid
    if (lane == 0) shared.gate[warp] = gate;
  }
  const Meeting meeting(kBlocks);
  __syncthreads();
  meeting.wait();  // the kernel has arrived at its start: the other blocks are there
  for (int i = threadIdx.x; i < kColumns * kBlocks; i += kThreads) {
    const int of_block = i / kColumns, at = i % kColumns;
    float y = 0;
    for (int j = 0; j < kGroups; ++j) y += shared.partial[j * kColumns + at];
    in_block(shared.y, of_block, kBlocks)[rank * kColumns + at] = y;
  }
  meeting.arrive();
  meeting.wait();
}

/// phi(y) = [softmax(y), softmax(-y)] of the q and k columns: one warp a softmax, in every block.
template <int kHeadDim, int kThreads, int kBlocks>
__device__ void mlstm_features(MlstmShared<kHeadDim, kThreads, kBlocks>& shared) {
  constexpr int kHalf = kHeadDim / 2;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= 4) return;
  const float sign = warp % 2 == 0 ? 1.0f : -1.0f;
  const float* y = shared.y + warp / 2 * kHalf;
  float* out = (warp / 2 == 0 ? shared.q_new : shared.k_new) + warp % 2 * kHalf;
  float greatest = -INFINITY, sum = 0;
  for (int i = lane; i < kHalf; i += 32) greatest = fmaxf(greatest, sign * y[i]);
  greatest = warp_max(greatest);
  for (int i = lane; i < kHalf; i += 32) {
    out[i] = expf(sign * y[i] - greatest);
    sum += out[i];
  }
  sum = warp_sum(sum);
  for (int i = lane; i < kHalf; i += 32) out[i] /= sum;
}

/// Updates the memory with the new token and reads it with shared.q: the score without its direct part, in every thread of
/// the first block; nothing in the others.
template <int kHeadDim, int kThreads, int kBlocks>
__device__ float mlstm_update(const MlstmScorerView& s, int head, int rank, bool reads,
                              MlstmShared<kHeadDim, kThreads, kBlocks>& shared) {
  constexpr int kGroups = kThreads / kHeadDim, kRows = kHeadDim / kBlocks;
  static_assert(kHeadDim % kBlocks == 0);
  const int thread = threadIdx.x;
  const float log_i = shared.gate[0], carried = shared.gate[1] + s.m[head];
  const float m = fmaxf(carried, log_i);
  // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
  const bool empty = m == -INFINITY;
  const float keep = empty ? 1.0f : expf(carried - m);
  const float admit = empty ? 0.0f : expf(log_i - m);

  const int group = thread / kHeadDim, column = thread % kHeadDim;
  float sum = 0;
  if (group < kGroups) {
    float* c = s.c + static_cast<long long>(head) * kHeadDim * kHeadDim + column;
    const float v = admit * shared.y[kHeadDim + column];
#pragma unroll 8
    for (int i = group; i < kRows; i += kGroups) {
      const int row = rank * kRows + i;
      const float updated = keep * c[row * kHeadDim] + shared.k_new[row] * v;
      c[row * kHeadDim] = updated;
      sum += shared.q[row] * updated;
    }
  }
  shared.partial[thread] = sum;
  __syncthreads();
  if (thread < kHeadDim) {
    float h = 0;
    for (int i = 0; i < kGroups; ++i) h += shared.partial[i * kHeadDim + thread];
    in_block(shared.h[rank], 0, kBlocks)[thread] = h;
  }
  const Meeting meeting(kBlocks);
  meeting.arrive();
  meeting.wait();  // also: m has been read by all
  if (rank != 0) return 0;

  float product = 0;
  if (thread < kHeadDim) {
    float& z = s.z[head * kHeadDim + thread];
    z = keep * z + admit * shared.k_new[thread];
    product = shared.q[thread] * z;
  }
  const float norm = block_sum<kThreads>(product, shared.sums);
  if (thread == 0) s.m[head] = m;
  float term = 0;
  if (thread < kHeadDim && reads) {
    float h = 0;
    for (int i = 0; i < kBlocks; ++i) h += shared.h[i][thread];
    h /= s.guarded ? fmaxf(fmaxf(fabsf(norm), expf(-m)), 1e-30f) : fmaxf(norm, 1e-6f);
    term = h / (1.0f + expf(-h)) * s.read[head * kHeadDim + thread];
  }
  __syncthreads();  // sums may be used again
  return block_sum<kThreads>(term, shared.sums);
}

/// Absorbs the token at `position` (its k, v in shared.x of every block, synchronised) and returns to every thread of the
/// first block the score of token position - delay, NaN while there is none. The other blocks have nothing more to do.
template <int kHeadDim, int kThreads, int kBlocks>
__device__ float mlstm_score(const MlstmScorerView& s, int head, int rank, std::int32_t position,
                             MlstmShared<kHeadDim, kThreads, kBlocks>& shared) {
  const bool waits = s.delay > 0, reads = position >= s.delay;
  const long long row = waits ? static_cast<long long>(head) * s.delay + position % s.delay : 0;
  if (waits && threadIdx.x < kHeadDim) {
    shared.q[threadIdx.x] = reads ? s.queries[row * kHeadDim + threadIdx.x] : 0.0f;
  }
  mlstm_project(s, head, rank, shared);
  mlstm_features(shared);
  __syncthreads();
  // Each thread writes what it reads itself; mlstm_update() has all wait before others read it.
  if (!waits && threadIdx.x < kHeadDim) shared.q[threadIdx.x] = shared.q_new[threadIdx.x];
  __syncthreads();
  const float read = mlstm_update(s, head, rank, reads, shared);
  if (rank != 0) return 0;
  if (waits && threadIdx.x < kHeadDim) s.queries[row * kHeadDim + threadIdx.x] = shared.q_new[threadIdx.x];
  if (threadIdx.x == 0) {
    const float direct = waits ? s.direct[row] : shared.gate[2];
    shared.score = reads ? read + direct : __int_as_float(0x7fc00000);
    if (waits) s.direct[row] = shared.gate[2];
  }
  __syncthreads();
  return shared.score;
}

}  // namespace kvscope::kernels
