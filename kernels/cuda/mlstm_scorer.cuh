#pragma once
// The delayed mLSTM scorer of KVpop for one new token of some rows and one KV head (kernels/admit_step.h), by the kBlocks
// blocks of a cluster, or by one block where the device has no clusters. A head's weights and memory are 330 KB, which one
// multiprocessor reads in 20 us: each block projects a share of the columns and updates a share of the memory's rows. Rows
// share the weights, which a block so reads once for all of them, and each row has its score from a block of its own.
//
// A row's sums have the same order however many rows there are, and what a compiler may or may not contract is written out.

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/mlstm_share.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels {

/// A gate of the block's own row, by one warp; in every lane.
template <typename Shape>
__device__ float mlstm_gate(const AdmitPlace& at, const MlstmHeld<Shape>& held, const MlstmShared<Shape>& shared) {
  const MlstmScorerView& s = at.own().scorer;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float gate = 0;
#pragma unroll
  for (int i = 0; i < Shape::kInputs / 32; ++i) gate = fmaf(held.of_gate[i], shared.x[at.rank][lane + 32 * i], gate);
  gate = warp_sum(gate) + held.bias;
  if (s.soft_cap > 0 && warp < 2) gate = __fmul_rn(tanhf(gate / s.soft_cap), s.soft_cap);
  if (warp == 1) gate = fminf(gate, 0.0f) - log1pf(expf(-fabsf(gate)));  // log sigmoid
  return gate;
}

/// Sends y = W x, this block's columns of q, k and v of all rows, and the three gates of its own row to all blocks. Groups of
/// threads have some inputs each; a column's parts are added up in one order. Ends with an arrival: the caller waits.
template <typename Shape>
__device__ void mlstm_project(const AdmitPlace& at, MlstmHeld<Shape>& held, MlstmShared<Shape>& shared) {
#pragma unroll
  for (int row = 0; row < Shape::kRows; ++row) {
    if (row >= at.n_rows) continue;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Shape::kHeld; ++i)
      if (held.has_input(i)) sum = fmaf(held.weight[i], shared.x[row][held.input(i)], sum);
#pragma unroll Shape::kUnroll
    for (int i = Shape::kHeld; i < Shape::kShare; ++i)
      if (held.has_input(i)) sum = fmaf(held.read_weight(at, i), shared.x[row][held.input(i)], sum);
    shared.partial[row][threadIdx.x] = sum;
  }
  const float gate = held.has_gate(at) ? mlstm_gate(at, held, shared) : 0.0f;
  held.read_state(at);
  const Meeting meeting(Shape::kBlocks);
  __syncthreads();
  meeting.wait();  // the kernel has arrived at its start: the other blocks are there
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (held.has_gate(at) && lane < Shape::kBlocks) in_block(&shared.gate[at.rank][warp], lane, Shape::kBlocks)[0] = gate;
  // A sum by one thread for all blocks, or by several for some blocks each where there are more threads than sums.
  constexpr int kSums = Shape::kRows * Shape::kColumns;
  constexpr int kMost = Shape::kThreads / kSums, kParts = kMost < 1                ? 1
                                                          : kMost < Shape::kBlocks ? kMost
                                                                                   : Shape::kBlocks;
  for (int i = threadIdx.x; i < kSums * kParts; i += Shape::kThreads) {
    const int row = i % kSums / Shape::kColumns, column = i % Shape::kColumns;
    if (row >= at.n_rows) continue;
    float y = 0;
#pragma unroll
    for (int j = 0; j < Shape::kGroups; ++j) y += shared.partial[row][j * Shape::kColumns + column];
    for (int block = i / kSums; block < Shape::kBlocks; block += kParts)
      in_block(shared.y[row], block, Shape::kBlocks)[at.rank * Shape::kColumns + column] = y;
  }
  meeting.arrive();
}

/// out = softmax(y), by one warp.
template <int kHeadDim>
__device__ void mlstm_softmax(const float* y, float* out) {
  constexpr int kEach = (kHeadDim + 31) / 32;
  const int lane = threadIdx.x % 32;
  float greatest = -INFINITY, sum = 0, exps[kEach];
  for (int i = lane; i < kHeadDim; i += 32) greatest = fmaxf(greatest, y[i]);
  greatest = warp_max(greatest);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    exps[i] = lane + 32 * i < kHeadDim ? expf(y[lane + 32 * i] - greatest) : 0.0f;
    sum += exps[i];
  }
  sum = warp_sum(sum);
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (lane + 32 * i < kHeadDim) out[lane + 32 * i] = exps[i] / sum;
}

/// out = phi(y) = [softmax(y), softmax(-y)], by one warp, which takes both at once.
template <int kHeadDim>
__device__ void mlstm_hedgehog(const float* y, float* out) {
  constexpr int kHalf = kHeadDim / 2, kEach = (kHalf + 31) / 32;
  const int lane = threadIdx.x % 32;
  float greatest = -INFINITY, least = INFINITY;
  for (int i = lane; i < kHalf; i += 32) {
    greatest = fmaxf(greatest, y[i]);
    least = fminf(least, y[i]);
  }
  greatest = warp_max(greatest);
  least = -warp_max(-least);
  float plus[kEach], minus[kEach], sum_plus = 0, sum_minus = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool is_there = lane + 32 * i < kHalf;
    plus[i] = is_there ? expf(y[lane + 32 * i] - greatest) : 0.0f;
    minus[i] = is_there ? expf(least - y[lane + 32 * i]) : 0.0f;
    sum_plus += plus[i];
    sum_minus += minus[i];
  }
  sum_plus = warp_sum(sum_plus);
  sum_minus = warp_sum(sum_minus);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i >= kHalf) continue;
    out[lane + 32 * i] = plus[i] / sum_plus;
    out[kHalf + lane + 32 * i] = minus[i] / sum_minus;
  }
}

template <typename Shape>
__device__ void mlstm_features(const float* y, float* out) {
  if constexpr (Shape::kSoftmaxMap) {
    mlstm_softmax<Shape::kHeadDim>(y, out);
  } else {
    mlstm_hedgehog<Shape::kHeadDim>(y, out);
  }
}

/// From y and the gates: k~ of all rows and how far each memory is kept, q~ where this block needs it.
template <typename Shape>
__device__ void mlstm_prepare(const AdmitPlace& at, MlstmShared<Shape>& shared) {
  for (int job = threadIdx.x / 32; job < 2 * at.n_rows; job += Shape::kThreads / 32) {
    const int row = job / 2;
    const float* y = shared.y[row];
    const bool waits = at.rows[row].scorer.delay > 0;
    if (job % 2 == 0) {  // columns q; those of a token that waits are its own block's to put away
      if (!waits || row == at.rank) mlstm_features<Shape>(y, waits ? shared.q_new : shared.q[row]);
      continue;
    }
    mlstm_features<Shape>(y + Shape::kMap, shared.k_new[row]);
    if (threadIdx.x % 32 != 0) continue;
    const float log_i = shared.gate[row][0], carried = shared.gate[row][1] + shared.m[row];
    const float m = fmaxf(carried, log_i);
    // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
    const bool empty = m == -INFINITY;
    shared.keep[row] = empty ? 1.0f : expf(carried - m);
    shared.admit[row] = empty ? 0.0f : expf(log_i - m);
    shared.m[row] = m;
  }
}

/// Updates this block's share of the memories with the new tokens, and sends what q~ reads there to the row's own block.
template <typename Shape>
__device__ void mlstm_update(const AdmitPlace& at, MlstmHeld<Shape>& held, MlstmShared<Shape>& shared) {
  constexpr int kHeadDim = Shape::kHeadDim;
#pragma unroll
  for (int row = 0; row < Shape::kRows; ++row) {
    if (row >= at.n_rows) continue;
    const float v = __fmul_rn(shared.admit[row], shared.y[row][2 * Shape::kMap + threadIdx.x % kHeadDim]),
                keep = shared.keep[row];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Shape::kStateShare; ++i) {
      if (!held.has_state(at.rank, i)) continue;
      const int of_state = held.state_row(at.rank, i);
      const float updated = fmaf(keep, held.state_of(at, row, i), __fmul_rn(shared.k_new[row][of_state], v));
      *held.state(at, row, i) = updated;
      sum = fmaf(shared.q[row][of_state], updated, sum);
    }
    shared.partial[row][threadIdx.x] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < at.n_rows * kHeadDim; i += Shape::kThreads) {
    const int row = i / kHeadDim, column = i % kHeadDim;
    float h = 0;
#pragma unroll
    for (int j = 0; j < Shape::kStateGroups; ++j) h += shared.partial[row][j * kHeadDim + column];
    in_block(shared.h[at.rank], row, Shape::kBlocks)[column] = h;
  }
}

/// h through its LayerNorm, in the threads that have a column of it; in others h is 0.
template <typename Shape>
__device__ float mlstm_norm(const AdmitPlace& at, bool has_column, float h, MlstmShared<Shape>& shared) {
  const MlstmScorerView& s = at.own().scorer;
  __syncthreads();  // sums may be used again
  const float mean = block_sum<Shape::kThreads>(h, shared.sums) / Shape::kHeadDim;
  const float centred = has_column ? __fsub_rn(h, mean) : 0.0f;
  __syncthreads();
  const float variance = block_sum<Shape::kThreads>(__fmul_rn(centred, centred), shared.sums) / Shape::kHeadDim;
  if (!has_column) return 0;
  return __fmul_rn(centred / sqrtf(__fadd_rn(variance, s.norm_eps)), s.norm[at.head * Shape::kHeadDim + threadIdx.x]);
}

/// The score of the block's own row without its direct part, in every thread.
template <typename Shape>
__device__ float mlstm_read(const AdmitPlace& at, bool reads, const MlstmHeld<Shape>& held,
                            MlstmShared<Shape>& shared) {
  const MlstmScorerView& s = at.own().scorer;
  const int thread = threadIdx.x, row = at.rank;
  float product = 0;
  if (held.has_column(at)) {
    const float z = fmaf(shared.keep[row], held.z, __fmul_rn(shared.admit[row], shared.k_new[row][thread]));
    s.z[at.head * Shape::kHeadDim + thread] = z;
    product = __fmul_rn(shared.q[row][thread], z);
  }
  const float norm = block_sum<Shape::kThreads>(product, shared.sums), m = shared.m[row];
  if (thread == 0) s.m[at.head] = m;
  const bool has_column = held.has_column(at) && reads;
  float h = 0;
  if (has_column) {
#pragma unroll
    for (int i = 0; i < Shape::kBlocks; ++i) h += shared.h[i][thread];
    h /= s.guarded ? fmaxf(fmaxf(fabsf(norm), expf(-m)), 1e-30f) : fmaxf(norm, 1e-6f);
  }
  if (s.norm != nullptr) h = mlstm_norm(at, has_column, h, shared);
  const float term = has_column ? __fmul_rn(h / (1.0f + expf(-h)), held.read) : 0.0f;
  __syncthreads();  // sums may be used again
  return block_sum<Shape::kThreads>(term, shared.sums);
}

/// What the scorer keeps of a row besides its memory, by one warp.
template <typename Shape>
__device__ void mlstm_recall(const AdmitPlace& at, int row, MlstmShared<Shape>& shared) {
  const MlstmScorerView& s = at.rows[row].scorer;
  const int lane = threadIdx.x % 32;
  if (lane == 0) shared.m[row] = s.m[at.head];
  if (s.delay == 0) return;
  const std::int32_t position = *at.rows[row].position;
  const long long cell = mlstm_cell(s, at.head, position);
  if (lane == 0 && row == at.rank) shared.direct = s.direct[cell];
#pragma unroll
  for (int i = lane; i < Shape::kHeadDim; i += 32)
    shared.q[row][i] = position >= s.delay ? s.queries[cell * Shape::kHeadDim + i] : 0.0f;
}

/// Absorbs what mlstm_project() has sent, in every block. Ends with an arrival: mlstm_score() waits.
template <typename Shape>
__device__ void mlstm_absorb(const AdmitPlace& at, MlstmHeld<Shape>& held, MlstmShared<Shape>& shared) {
  const Meeting meeting(Shape::kBlocks);
  meeting.wait();
  mlstm_prepare(at, shared);
  __syncthreads();
  mlstm_update(at, held, shared);
  meeting.arrive();
}

/// To every thread of a row's own block the score of token position - delay of that row, NaN while there is none; 0 to a block
/// without a row.
template <typename Shape>
__device__ float mlstm_score(const AdmitPlace& at, const MlstmHeld<Shape>& held, MlstmShared<Shape>& shared) {
  Meeting(Shape::kBlocks).wait();  // also: m has been read by all
  if (!at.has_own()) return 0;
  const MlstmScorerView& s = at.own().scorer;
  const std::int32_t position = *at.own().position;
  const bool waits = s.delay > 0, reads = position >= s.delay;
  const float read = mlstm_read(at, reads, held, shared);
  const float now = shared.gate[at.rank][2];
  if (!waits) return read + now;
  const long long cell = mlstm_cell(s, at.head, position);
  if (threadIdx.x < Shape::kHeadDim) s.queries[cell * Shape::kHeadDim + threadIdx.x] = shared.q_new[threadIdx.x];
  if (threadIdx.x == 0) s.direct[cell] = now;
  return reads ? read + shared.direct : __int_as_float(0x7fc00000);
}

}  // namespace kvscope::kernels
