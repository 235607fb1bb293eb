#include <algorithm>
#include <utility>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mlstm_features.cuh"
#include "kernels/mlstm_prompt.h"

namespace kvscope::kernels {
namespace mlstm_prompt_parts {
namespace {

/// What the gates make of a head's blocks, one after the other; a thread a token. In a block, with b_e the sum of log f up
/// to e, the log weight of token j at e is b_e - b_j + log i_j, and that of the state before the block b_e + m. m_e is the
/// greatest of them, and everything is in units of exp(m_e).
///
///     decay b_e; weight log i_j - b_j; greatest m_e; of_state exp(b_e + m - m_e); of_end the weight of j in the state after
///     the block; carry that of the state before it
///
/// -inf: nothing was ever let in, and the state is still zero; -inf - -inf must not make it NaN.
__global__ __launch_bounds__(kBlock) void block_gates_kernel(const __grid_constant__ Params p) {
  __shared__ float of_warp[2][kBlock / 32];
  __shared__ float at_end[2];
  const int head = blockIdx.x, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  float m = p.s.m[head];
  const long long row = static_cast<long long>(head) * p.n;
  float next_f = thread < p.n ? p.log_f[row + thread] : 0.0f, next_i = thread < p.n ? p.log_i[row + thread] : 0.0f;
  for (int block = 0; block < p.n_blocks; ++block) {
    const int token = block * kBlock + thread;
    const long long at = row + token;
    const bool is_there = token < p.n;
    float b = next_f;
    const float log_i = next_i;
    if (token + kBlock < p.n)
      next_f = p.log_f[at + kBlock], next_i = p.log_i[at + kBlock];
    else
      next_f = 0;
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, b, offset);
      if (lane >= offset) b += before;
    }
    if (lane == 31) of_warp[0][warp] = b;
    __syncthreads();
    for (int i = 0; i < warp; ++i) b += of_warp[0][i];
    const float weight = is_there ? log_i - b : -INFINITY;
    float highest = weight;
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, highest, offset);
      if (lane >= offset) highest = fmaxf(highest, before);
    }
    if (lane == 31) of_warp[1][warp] = highest;
    __syncthreads();
    for (int i = 0; i < warp; ++i) highest = fmaxf(highest, of_warp[1][i]);
    if (thread == kBlock - 1) at_end[0] = b, at_end[1] = highest;
    __syncthreads();
    const float total = at_end[0], after = total + fmaxf(at_end[1], m), greatest = b + fmaxf(highest, m);
    if (is_there) {
      p.decay[at] = b;
      p.weight[at] = weight;
      p.greatest[at] = greatest;
      p.of_state[at] = greatest == -INFINITY ? 0.0f : expf(b + m - greatest);
      p.of_end[at] = after == -INFINITY ? 0.0f : expf(total + weight - after);
    }
    if (thread == 0) p.carry[head * p.n_blocks + block] = after == -INFINITY ? 1.0f : expf(total + m - after);
    m = after;
  }
  if (thread == 0) p.s.m[head] = m;
}

/// What a block adds to the state: the sum of k~ v~^T and of k~, weighed for the block's end. Grid: blocks, heads.
template <int kHeadDim>
__global__ __launch_bounds__(kThreads) void added_kernel(const __grid_constant__ Params p) {
  constexpr int kShare = kHeadDim / 16;
  __shared__ alignas(16) float k[kSlice][kHeadDim], v[kSlice][kHeadDim];
  const int block = blockIdx.x, head = blockIdx.y, begin = block * kBlock, end = min(p.n, begin + kBlock);
  float sum[kShare][kShare] = {}, z = 0;
  for (int first = begin; first < end; first += kSlice) {
    for (int i = threadIdx.x; i < kSlice * kHeadDim; i += kThreads) {
      const int row = i / kHeadDim, column = i % kHeadDim;
      const long long at = static_cast<long long>(head) * p.n + first + row;
      const bool is_there = first + row < end;
      k[row][column] = is_there ? p.k_map[at * kHeadDim + column] * p.of_end[at] : 0.0f;
      v[row][column] = is_there ? p.value[at * kHeadDim + column] : 0.0f;
    }
    __syncthreads();
    multiply_slice<kShare, kShare, kHeadDim, kHeadDim>(&k[0][0], &v[0][0], sum);
    if (threadIdx.x < kHeadDim)
      for (int row = 0; row < kSlice; ++row) z += k[row][threadIdx.x];
    __syncthreads();
  }
  const long long at = static_cast<long long>(head) * p.n_blocks + block;
  float* out = p.state + at * kHeadDim * kHeadDim;
  for (int i = 0; i < kShare; ++i)
    for (int j = 0; j < kShare; ++j)
      out[tile_index(threadIdx.x / 16, i) * kHeadDim + tile_index(threadIdx.x % 16, j)] = sum[i][j];
  if (threadIdx.x < kHeadDim) p.state_z[at * kHeadDim + threadIdx.x] = z;
}

constexpr int kMostBlocks = kMlstmPromptTokens / kBlock;

/// From what blocks add to the states before them, and to the memory after the last. A thread a number.
template <int kHeadDim>
__global__ __launch_bounds__(kThreads) void states_kernel(const __grid_constant__ Params p) {
  constexpr int kSquare = kHeadDim * kHeadDim;
  const int head = blockIdx.y, i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= kSquare + kHeadDim) return;
  const bool is_z = i >= kSquare;
  const int width = is_z ? kHeadDim : kSquare, column = is_z ? i - kSquare : i;
  float* memory = (is_z ? p.s.z : p.s.c) + static_cast<long long>(head) * width + column;
  float* state = (is_z ? p.state_z : p.state) + static_cast<long long>(head) * p.n_blocks * width + column;
  float added[kMostBlocks], carry[kMostBlocks];  // all asked for at once
#pragma unroll
  for (int block = 0; block < kMostBlocks; ++block) {
    if (block >= p.n_blocks) break;
    added[block] = state[block * width];
    carry[block] = p.carry[head * p.n_blocks + block];
  }
  float now = *memory;
#pragma unroll
  for (int block = 0; block < kMostBlocks; ++block) {
    if (block >= p.n_blocks) break;
    state[block * width] = now;
    now = carry[block] * now + added[block];
  }
  *memory = now;
}

/// Where q~ and the direct part of token `token` (from 0; negative: before this call) are: null before the first of all.
template <int kHeadDim>
__device__ inline const float* query_of(const Params& p, int head, int token) {
  if (token >= 0) return p.q_map + (static_cast<long long>(head) * p.n + token) * kHeadDim;
  if (p.first + token < 0) return nullptr;
  return p.s.queries + (static_cast<long long>(head) * p.s.delay + (p.first + token) % p.s.delay) * kHeadDim;
}
__device__ inline float direct_of(const Params& p, int head, int token) {
  if (token >= 0) return p.direct[static_cast<long long>(head) * p.n + token];
  return p.s.direct[static_cast<long long>(head) * p.s.delay + (p.first + token) % p.s.delay];
}

struct ReadShared {
  alignas(16) float w[kBlock][kBlock + kPad];  // [j][e]: what query e gives token j
  alignas(16) float a[kSlice][kBlock + kPad], b[kSlice][kBlock + kPad];
  float decay[kBlock], weight[kBlock], greatest[kBlock], of_state[kBlock], below[kBlock];
  float z[kBlock];             // [head_dim] of the state before the block
  const float* query[kBlock];  // q~ that reads state e; null: none
};

/// out[channel][row] = rows(row)[first + channel] of kSlice channels of a block's rows, times scale[row] if there is one; null
/// rows are 0.
template <typename Rows>
__device__ inline void load_transposed(float (&out)[kSlice][kBlock + kPad], int first, const Rows& rows,
                                       const float* scale = nullptr) {
  constexpr int kFours = kSlice / 4;
  for (int i = threadIdx.x; i < kFours * kBlock; i += kThreads) {
    const int channel = i % kFours * 4, row = i / kFours;
    const float* data = rows(row);
    float4 four = {};
    if (data != nullptr) four = *reinterpret_cast<const float4*>(data + first + channel);
    const float by = scale == nullptr ? 1.0f : scale[row];
    out[channel][row] = four.x * by, out[channel + 1][row] = four.y * by;
    out[channel + 2][row] = four.z * by, out[channel + 3][row] = four.w * by;
  }
}

/// w = q~ k~^T, weighed by the gates, for the tokens up to each query; and its row sums.
template <int kHeadDim>
__device__ void weigh_block(const Params& p, ReadShared& shared, int head, int begin, int count) {
  const float* k = p.k_map + (static_cast<long long>(head) * p.n + begin) * kHeadDim;
  float w[8][8] = {};
  for (int first = 0; first < kHeadDim; first += kSlice) {
    load_transposed(shared.a, first, [&](int e) { return shared.query[e]; });
    load_transposed(shared.b, first, [&](int j) { return j < count ? k + j * kHeadDim : nullptr; });
    __syncthreads();
    multiply_slice<8, 8, kBlock + kPad, kBlock + kPad>(&shared.a[0][0], &shared.b[0][0], w);
    __syncthreads();
  }
  for (int i = 0; i < 8; ++i) {
    for (int column = 0; column < 8; ++column) {
      const int e = tile_index(threadIdx.x / 16, i), j = tile_index(threadIdx.x % 16, column);
      const bool counts = j <= e && e < count && shared.greatest[e] != -INFINITY;
      shared.w[j][e] = counts ? w[i][column] * expf(shared.decay[e] + shared.weight[j] - shared.greatest[e]) : 0.0f;
    }
  }
  __syncthreads();
  if (threadIdx.x >= kBlock) return;
  float sum = 0;
  for (int j = 0; j < kBlock; ++j) sum += shared.w[j][threadIdx.x];
  shared.below[threadIdx.x] = sum;
}

/// What 16 threads have read of a row, through its LayerNorm.
template <int kHeadDim, int kShare>
__device__ inline void normalise_row(const Params& p, int head, float (&h)[kShare]) {
  float mean = 0, variance = 0;
  for (int j = 0; j < kShare; ++j) mean += h[j];
  mean = sum_of_row(mean) / kHeadDim;
  for (int j = 0; j < kShare; ++j) variance += (h[j] - mean) * (h[j] - mean);
  const float deviation = sqrtf(sum_of_row(variance) / kHeadDim + p.s.norm_eps);
  for (int j = 0; j < kShare; ++j)
    h[j] = (h[j] - mean) / deviation * p.s.norm[head * kHeadDim + tile_index(threadIdx.x % 16, j)];
}

/// Reads of the states e of one block by the queries of tokens e - delay. Grid: blocks, heads.
template <int kHeadDim, bool kHasNorm>
__global__ __launch_bounds__(kThreads) void read_kernel(const __grid_constant__ Params p) {
  constexpr int kShare = kHeadDim / 16;
  extern __shared__ char bytes[];
  ReadShared& shared = *reinterpret_cast<ReadShared*>(bytes);
  const int block = blockIdx.x, head = blockIdx.y, begin = block * kBlock, count = min(p.n - begin, kBlock);
  const long long row = static_cast<long long>(head) * p.n + begin, of_block = head * p.n_blocks + block;
  if (threadIdx.x < kBlock) {
    const bool is_there = threadIdx.x < count;
    shared.decay[threadIdx.x] = is_there ? p.decay[row + threadIdx.x] : 0.0f;
    shared.weight[threadIdx.x] = is_there ? p.weight[row + threadIdx.x] : -INFINITY;
    shared.greatest[threadIdx.x] = is_there ? p.greatest[row + threadIdx.x] : -INFINITY;
    shared.of_state[threadIdx.x] = is_there ? p.of_state[row + threadIdx.x] : 0.0f;
    shared.query[threadIdx.x] = is_there ? query_of<kHeadDim>(p, head, begin + threadIdx.x - p.s.delay) : nullptr;
    if (threadIdx.x < kHeadDim) shared.z[threadIdx.x] = p.state_z[of_block * kHeadDim + threadIdx.x];
  }
  __syncthreads();
  weigh_block<kHeadDim>(p, shared, head, begin, count);
  float h[8][kShare] = {};
  for (int first = 0; first < kBlock; first += kSlice) {
    for (int i = threadIdx.x; i < kSlice * kHeadDim; i += kThreads) {
      const int j = first + i / kHeadDim;
      shared.b[i / kHeadDim][i % kHeadDim] = j < count ? p.value[(row + j) * kHeadDim + i % kHeadDim] : 0.0f;
    }
    __syncthreads();
    multiply_slice<8, kShare, kBlock + kPad, kBlock + kPad>(&shared.w[first][0], &shared.b[0][0], h);
    __syncthreads();
  }
  const float* state = p.state + of_block * kHeadDim * kHeadDim;
  float of_state = 0;
  for (int first = 0; first < kHeadDim; first += kSlice) {
    load_transposed(
        shared.a, first, [&](int e) { return shared.query[e]; }, shared.of_state);
    for (int i = threadIdx.x; i < kSlice * kHeadDim; i += kThreads)
      shared.b[i / kHeadDim][i % kHeadDim] = state[first * kHeadDim + i];
    __syncthreads();
    multiply_slice<8, kShare, kBlock + kPad, kBlock + kPad>(&shared.a[0][0], &shared.b[0][0], h);
    if (threadIdx.x < kBlock)
      for (int i = 0; i < kSlice; ++i) of_state += shared.a[i][threadIdx.x] * shared.z[first + i];
    __syncthreads();
  }
  if (threadIdx.x < kBlock) shared.below[threadIdx.x] += of_state;
  __syncthreads();
  for (int i = 0; i < 8; ++i) {
    const int e = tile_index(threadIdx.x / 16, i), token = begin + e - p.s.delay;
    const float below = shared.below[e], m = shared.greatest[e];
    const float divisor = p.s.guarded ? fmaxf(fmaxf(fabsf(below), expf(-m)), 1e-30f) : fmaxf(below, 1e-6f);
    float row_of_h[kShare], sum = 0;
    if constexpr (kHasNorm) {
      for (int j = 0; j < kShare; ++j) row_of_h[j] = h[i][j] / divisor;
      normalise_row<kHeadDim>(p, head, row_of_h);
    }
    for (int j = 0; j < kShare; ++j) {
      const float x = kHasNorm ? row_of_h[j] : h[i][j] / divisor;
      sum += x / (1.0f + expf(-x)) * p.s.read[head * kHeadDim + tile_index(threadIdx.x % 16, j)];
    }
    sum = sum_of_row(sum);
    if (threadIdx.x % 16 != 0 || e >= count) continue;
    p.score[row + e] = p.first + token < 0 ? __int_as_float(0x7fc00000) : sum + direct_of(p, head, token);
  }
}

/// The last tokens' q~ and direct parts, for the steps that follow. Grid: tokens, heads.
template <int kHeadDim>
__global__ __launch_bounds__(kHeadDim) void keep_kernel(const __grid_constant__ Params p) {
  const int head = blockIdx.y, token = p.n - 1 - static_cast<int>(blockIdx.x);
  const long long from = static_cast<long long>(head) * p.n + token;
  const long long to = static_cast<long long>(head) * p.s.delay + (p.first + token) % p.s.delay;
  p.s.queries[to * kHeadDim + threadIdx.x] = p.q_map[from * kHeadDim + threadIdx.x];
  if (threadIdx.x == 0) p.s.direct[to] = p.direct[from];
}

template <typename T, int kHeadDim>
void launch(const Params& p, Stream stream) {
  const auto heads = static_cast<unsigned>(p.n_heads), blocks = static_cast<unsigned>(p.n_blocks);
  const auto tiles = static_cast<unsigned>((p.n + kTokens - 1) / kTokens);
  const auto features = [&]<bool kSoftmaxMap>() {
    const dim3 grid(tiles, heads, kKinds<kHeadDim, kSoftmaxMap>);
    features_kernel<T, kHeadDim, kSoftmaxMap><<<grid, kThreads, 0, stream>>>(p);
    check_launch();
  };
  p.s.softmax_map ? features.template operator()<true>() : features.template operator()<false>();
  block_gates_kernel<<<heads, kBlock, 0, stream>>>(p);
  check_launch();
  added_kernel<kHeadDim><<<dim3(blocks, heads), kThreads, 0, stream>>>(p);
  check_launch();
  constexpr unsigned kStates = kHeadDim * (kHeadDim + 1);
  states_kernel<kHeadDim><<<dim3((kStates + kThreads - 1) / kThreads, heads), kThreads, 0, stream>>>(p);
  check_launch();
  const auto read = p.s.norm != nullptr ? read_kernel<kHeadDim, true> : read_kernel<kHeadDim, false>;
  launch_shared(read, dim3(blocks, heads), kThreads, sizeof(ReadShared), stream, p);
  if (p.s.delay == 0) return;
  keep_kernel<kHeadDim><<<dim3(static_cast<unsigned>(std::min(p.n, p.s.delay)), heads), kHeadDim, 0, stream>>>(p);
  check_launch();
}

}  // namespace
}  // namespace mlstm_prompt_parts

void cuda::mlstm_prompt(const MlstmPromptArgs& args, Stream stream) {
  namespace parts = mlstm_prompt_parts;
  if (!has_mlstm_prompt(args.head_dim)) refuse("mlstm_prompt", "head_dim", args.head_dim, "64 or 128");
  for (const auto& [name, pointer] :
       {std::pair{"scratch", static_cast<const void*>(args.scratch)}, {"k", args.k}, {"v", args.v}})
    require_alignment("mlstm_prompt", name, pointer);
  dispatch_dtype(args.dtype, [&]<typename T>() {
    args.head_dim == 64 ? parts::launch<T, 64>(parts::Params(args), stream)
                        : parts::launch<T, 128>(parts::Params(args), stream);
  });
}

}  // namespace kvscope::kernels
