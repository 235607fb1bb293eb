#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/project_parts.cuh"
#include "kernels/expert_mlp.h"

// Which experts a token goes through is known on the device alone, so the grid covers the chosen ones, not all, and each
// warp finds its rows by expert[]. A decode step is as fast as its weights arrive: a warp asks for all lines of its rows at
// once, before it norms or adds.

namespace kvscope::kernels {
namespace {

using namespace project_parts;  // blocks of 512, the norm

constexpr int kLineBytes = 128;

/// Asks for `n` elements from `from` on; the lanes of a warp share the lines.
template <typename T>
__device__ inline void ask_for(const T* from, long long n) {
  const char* bytes = reinterpret_cast<const char*>(from);
  for (long long at = threadIdx.x % 32 * kLineBytes; at < n * static_cast<long long>(sizeof(T)); at += 32 * kLineBytes)
    prefetch_to_l2(bytes + at);
}

/// y and what a bias adds to it.
template <typename T>
__device__ inline float biased(float y, const void* bias, long long index) {
  return bias != nullptr ? y + to_float(static_cast<const T*>(bias)[index]) : y;
}

/// A lane's part of row . x: chunks of 16 bytes lane, lane + 32, ... or, where rows are no whole chunks, elements.
template <typename T, bool kChunks>
__device__ inline float part_of_dot(const T* row, const T* x, int dim) {
  const int lane = threadIdx.x % 32;
  float sum = 0;
  if constexpr (kChunks) {
    constexpr int kSize = Chunk<T>::kSize;
#pragma unroll 4
    for (int c = lane * kSize; c < dim; c += 32 * kSize) {
      const Chunk<T> w = load_chunk(row + c), v = load_chunk(x + c);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum += to_float(w.element[i]) * to_float(v.element[i]);
    }
  } else {
    for (int c = lane; c < dim; c += 32) sum += to_float(row[c]) * to_float(x[c]);
  }
  return sum;
}

// Block (b, s): 16 channels of the activation of slot s, which is one of the chosen experts of one token; a warp each.
template <typename T, bool kChunks>
__global__ void __launch_bounds__(kThreads) activate_experts_kernel(ExpertMlpArgs args) {
  extern __shared__ __align__(128) char shared[];
  __shared__ float sums[kWarps];
  T* n = reinterpret_cast<T*>(shared);
  const int slot = blockIdx.y, token = slot / args.n_chosen;
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  ProjectArgs norm = {};  // what project_parts.cuh reads of a norm
  norm.x = args.x;
  norm.norm_weight = args.norm_weight;
  norm.dim = args.dim;
  norm.eps = args.eps;
  NormRow<T> x;
  const bool fits = NormRow<T>::fits(norm);
  let_next_start();
  if (fits) x.load_weight(norm);
  wait_for_previous();
  const long long first = static_cast<long long>(args.expert[slot]) * 2 * args.ff + row;
  const T* gate = static_cast<const T*>(args.gate_up) + first * args.dim;
  const T* up = gate + static_cast<long long>(args.ff) * args.dim;
  if (row < args.ff) {
    ask_for(gate, args.dim);
    ask_for(up, args.dim);
  }
  fits ? x.norm(norm, token, n, sums) : norm_long_row(norm, token, n, sums);
  __syncthreads();
  if (row >= args.ff) return;
  const float y = warp_sum(part_of_dot<T, kChunks>(gate, n, args.dim));
  const float z = warp_sum(part_of_dot<T, kChunks>(up, n, args.dim));
  if (threadIdx.x % 32 == 0) {
    const float activated =
        gated(args.gate, biased<T>(y, args.gate_up_bias, first), biased<T>(z, args.gate_up_bias, first + args.ff));
    static_cast<T*>(args.activation)[slot * static_cast<long long>(args.ff) + row] = from_float<T>(activated);
  }
}

// Block (b, t): 16 features of token t, a warp each, over all of its experts.
template <typename T, bool kChunks>
__global__ void __launch_bounds__(kThreads) add_experts_kernel(ExpertMlpArgs args) {
  const int token = blockIdx.y;
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const long long first_slot = static_cast<long long>(token) * args.n_chosen;
  let_next_start();
  wait_for_previous();
  if (row >= args.dim) return;
  const auto row_of = [&](int i) {
    const long long expert = args.expert[first_slot + i];
    return static_cast<const T*>(args.down) + (expert * args.dim + row) * args.ff;
  };
  for (int i = 0; i < args.n_chosen; ++i) ask_for(row_of(i), args.ff);
  float sum = 0;
  for (int i = 0; i < args.n_chosen; ++i) {
    const T* activation = static_cast<const T*>(args.activation) + (first_slot + i) * args.ff;
    const float y = warp_sum(part_of_dot<T, kChunks>(row_of(i), activation, args.ff));
    const long long index = static_cast<long long>(args.expert[first_slot + i]) * args.dim + row;
    sum += args.weight[first_slot + i] * biased<T>(y, args.down_bias, index);
  }
  if (threadIdx.x % 32 == 0) args.out[token * static_cast<long long>(args.dim) + row] += sum;
}

unsigned blocks_of(int rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }

/// Whether rows of so many elements can be read 16 bytes at a time.
bool has_chunks(DType dtype, int dim, std::initializer_list<const void*> pointers) {
  const bool aligned = std::ranges::all_of(
      pointers, [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; });
  return aligned && dim * size_of(dtype) % 16 == 0;
}

template <typename T, bool kChunks>
void launch_activate(const ExpertMlpArgs& args, Stream stream) {
  launch_dependent(activate_experts_kernel<T, kChunks>, dim3(blocks_of(args.ff), args.n_tokens * args.n_chosen),
                   kThreads, static_cast<std::size_t>(args.dim) * sizeof(T), stream, args);
}

template <typename T, bool kChunks>
void launch_add(const ExpertMlpArgs& args, Stream stream) {
  launch_dependent(add_experts_kernel<T, kChunks>, dim3(blocks_of(args.dim), args.n_tokens), kThreads, 0, stream, args);
}

}  // namespace

void cuda::expert_mlp(const ExpertMlpArgs& args, Stream stream) {
  dispatch_dtype(args.dtype, [&]<typename T>() {
    has_chunks(args.dtype, args.dim, {args.gate_up}) ? launch_activate<T, true>(args, stream)
                                                     : launch_activate<T, false>(args, stream);
    has_chunks(args.dtype, args.ff, {args.down, args.activation}) ? launch_add<T, true>(args, stream)
                                                                  : launch_add<T, false>(args, stream);
  });
}

}  // namespace kvscope::kernels
