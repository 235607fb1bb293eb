#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/glu.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

// One thread per 16 bytes of out.
template <typename T, GluActivation kActivation>
__global__ void glu_kernel(const T* gate_up, T* out, long long n_chunks, int chunks_per_row) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n_chunks) return;
  const long long row = i / chunks_per_row;
  const T* from = gate_up + (i + row * chunks_per_row) * Chunk<T>::kSize;
  const Chunk<T> x = load_chunk(from), up = load_chunk(from + chunks_per_row * Chunk<T>::kSize);
  Chunk<T> result;
#pragma unroll
  for (int j = 0; j < Chunk<T>::kSize; ++j) {
    result.element[j] = from_float<T>(gated(kActivation, to_float(x.element[j]), to_float(up.element[j])));
  }
  store_chunk(out + i * Chunk<T>::kSize, result);
}

// The same, one thread per element, for rows that are not whole chunks.
template <typename T, GluActivation kActivation>
__global__ void glu_any_kernel(const T* gate_up, T* out, long long n, int dim) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const T* from = gate_up + i + i / dim * dim;
  out[i] = from_float<T>(gated(kActivation, to_float(from[0]), to_float(from[dim])));
}

unsigned blocks_for(long long n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

template <GluActivation kActivation>
void launch(const GluArgs& args, Stream stream) {
  const long long n = args.n_rows * args.dim;
  dispatch_dtype(args.dtype, [&]<typename T>() {
    const T* from = static_cast<const T*>(args.gate_up);
    T* out = static_cast<T*>(args.out);
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
    if (aligned && args.dim % Chunk<T>::kSize == 0) {
      const long long n_chunks = n / Chunk<T>::kSize;
      glu_kernel<T, kActivation>
          <<<blocks_for(n_chunks), kThreads, 0, stream>>>(from, out, n_chunks, args.dim / Chunk<T>::kSize);
    } else {
      glu_any_kernel<T, kActivation><<<blocks_for(n), kThreads, 0, stream>>>(from, out, n, args.dim);
    }
  });
  check_launch();
}

}  // namespace

void cuda::glu(const GluArgs& args, Stream stream) {
  if (args.activation == GluActivation::silu) return launch<GluActivation::silu>(args, stream);
  if (args.activation == GluActivation::gelu_tanh) return launch<GluActivation::gelu_tanh>(args, stream);
  launch<GluActivation::clamped>(args, stream);
}

}  // namespace kvscope::kernels
