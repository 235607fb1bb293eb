#pragma once
// The delayed mLSTM scorer of one KV head for one new token, by one block (admit_step.h has the equations).

#include "kernels/admit_step.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels {

/// Shared memory of mlstm_score(), in floats.
template <int kHeadDim, int kThreads>
struct MlstmShared {
  float x[2 * kHeadDim];  // k, v of the new token: to be filled by the caller
  float y[2 * kHeadDim];  // W x
  float gate[3];          // log i, log f, direct
  float q[kHeadDim];      // q~ of the token that is read
  float q_new[kHeadDim];
  float k_new[kHeadDim];
  float partial[kThreads];
  float sums[kThreads / 32];
  float score;
};

/// Brings what the scorer will read into the second-level cache; may run before the kernel before has ended.
template <int kHeadDim, int kThreads>
__device__ inline void prefetch_mlstm(const MlstmScorerView& s, int head) {
  constexpr long long kWeights = 2LL * kHeadDim * (2 * kHeadDim + 3), kState = 1LL * kHeadDim * kHeadDim;
  for (long long i = threadIdx.x * 32; i < kWeights; i += kThreads * 32)
    prefetch_to_l2(s.project + head * kWeights + i);
  for (long long i = threadIdx.x * 32; i < kState; i += kThreads * 32) prefetch_to_l2(s.c + head * kState + i);
}

/// y = W x for the columns of q, k and v, and the three gates. Rows are dealt out to groups of threads; a column's
/// parts are added up in one order.
template <int kHeadDim, int kThreads>
__device__ void mlstm_project(const MlstmScorerView& s, int head, MlstmShared<kHeadDim, kThreads>& shared) {
  constexpr int kInputs = 2 * kHeadDim, kColumns = 2 * kHeadDim, kStride = kColumns + 3, kGroups = kThreads / kColumns;
  const float* weight = s.project + static_cast<long long>(head) * kInputs * kStride;
  const int group = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  float sum = 0;
  if (group < kGroups) {
#pragma unroll 16
    for (int row = group; row < kInputs; row += kGroups) sum += weight[row * kStride + column] * shared.x[row];
  }
  shared.partial[threadIdx.x] = sum;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < 3) {
    float gate = 0;
    for (int row = lane; row < kInputs; row += 32) gate += weight[row * kStride + kColumns + warp] * shared.x[row];
    gate = warp_sum(gate) + s.bias[head * 3 + warp];
    if (s.soft_cap > 0 && warp < 2) gate = tanhf(gate / s.soft_cap) * s.soft_cap;
    if (warp == 1) gate = fminf(gate, 0.0f) - log1pf(expf(-fabsf(gate)));  // log sigmoid
    if (lane == 0) shared.gate[warp] = gate;
  }
  __syncthreads();
  if (threadIdx.x < kColumns) {
    float y = 0;
    for (int i = 0; i < kGroups; ++i) y += shared.partial[i * kColumns + threadIdx.x];
    shared.y[threadIdx.x] = y;
  }
  __syncthreads();
}

/// phi(y) = [softmax(y), softmax(-y)] of the q and k columns: one warp a softmax.
template <int kHeadDim, int kThreads>
__device__ void mlstm_features(MlstmShared<kHeadDim, kThreads>& shared) {
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

/// Updates the memory with the new token and reads it with shared.q: the score without its direct part, in thread 0.
template <int kHeadDim, int kThreads>
__device__ float mlstm_update(const MlstmScorerView& s, int head, bool reads, MlstmShared<kHeadDim, kThreads>& shared) {
  constexpr int kGroups = kThreads / kHeadDim;
  const int thread = threadIdx.x;
  const float log_i = shared.gate[0], carried = shared.gate[1] + s.m[head];
  const float m = fmaxf(carried, log_i);
  // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
  const bool empty = m == -INFINITY;
  const float keep = empty ? 1.0f : expf(carried - m);
  const float admit = empty ? 0.0f : expf(log_i - m);
  float product = 0;
  if (thread < kHeadDim) {
    float& z = s.z[head * kHeadDim + thread];
    z = keep * z + admit * shared.k_new[thread];
    product = shared.q[thread] * z;
  }
  const float norm = block_sum<kThreads>(product, shared.sums);  // synchronises: m has been read by all
  if (thread == 0) s.m[head] = m;

  const int group = thread / kHeadDim, column = thread % kHeadDim;
  float sum = 0;
  if (group < kGroups) {
    float* c = s.c + static_cast<long long>(head) * kHeadDim * kHeadDim + column;
    const float v = admit * shared.y[kHeadDim + column];
#pragma unroll 8
    for (int row = group; row < kHeadDim; row += kGroups) {
      const float updated = keep * c[row * kHeadDim] + shared.k_new[row] * v;
      c[row * kHeadDim] = updated;
      sum += shared.q[row] * updated;
    }
  }
  shared.partial[thread] = sum;
  __syncthreads();
  float term = 0;
  if (thread < kHeadDim && reads) {
    float h = 0;
    for (int i = 0; i < kGroups; ++i) h += shared.partial[i * kHeadDim + thread];
    h /= s.guarded ? fmaxf(fmaxf(fabsf(norm), expf(-m)), 1e-30f) : fmaxf(norm, 1e-6f);
    term = h / (1.0f + expf(-h)) * s.read[head * kHeadDim + thread];
  }
  return block_sum<kThreads>(term, shared.sums);
}

/// Absorbs the token at `position` (its k, v in shared.x, synchronised) and returns to every thread the score of token
/// position - delay, NaN while there is none.
template <int kHeadDim, int kThreads>
__device__ float mlstm_score(const MlstmScorerView& s, int head, std::int32_t position,
                             MlstmShared<kHeadDim, kThreads>& shared) {
  const bool waits = s.delay > 0, reads = position >= s.delay;
  const long long row = waits ? static_cast<long long>(head) * s.delay + position % s.delay : 0;
  if (waits && threadIdx.x < kHeadDim) {
    shared.q[threadIdx.x] = reads ? s.queries[row * kHeadDim + threadIdx.x] : 0.0f;
  }
  mlstm_project(s, head, shared);
  mlstm_features(shared);
  __syncthreads();
  // Each thread writes what it reads itself; mlstm_update() synchronises before others do.
  if (!waits && threadIdx.x < kHeadDim) shared.q[threadIdx.x] = shared.q_new[threadIdx.x];
  const float read = mlstm_update(s, head, reads, shared);
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
