#include "kernels/project.h"

#include <algorithm>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/validate.h"

// A decode step is as fast as its weights arrive, so everything here is about never letting the memory wait:
//  - one block a multiprocessor walks over its share of the rows; each thread fetches into shared memory, many requests
//    ahead, exactly the weights that it will use itself, so that no barrier stands between memory and arithmetic;
//  - the first requests go out before the kernel before has ended (launch.cuh): weights do not depend on it.
// bfloat16 rows go through mma.m16n8k16 with the tokens as its 16 rows (8 of them used): eight rows of weights at a time,
// and whether one token or eight share them changes neither the loads nor the order of any sum.

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kTaskRows = 8;      // rows of weights of a task: the 8 columns of an mma
constexpr int kUnitColumns = 64;  // columns that a warp takes at a time: one line of 128 bytes in each of the 8 rows
constexpr int kUnitBytes = kTaskRows * kUnitColumns * 2;
constexpr int kStages = 12;  // units that a warp has asked for: 96 KB a block, 12.7 MB on 132 multiprocessors
constexpr std::size_t kRingBytes = static_cast<std::size_t>(kWarps) * kStages * kUnitBytes;
constexpr std::size_t kMaxInputBytes = 120 * 1024;  // of shared memory for the tokens

struct ProjectParams {
  ProjectArgs args;
  long long n_tasks;
};

/// Which row of the weights is row i (0 ... 7) of a task; SwiGLU wants a gate row and its up row in the same one.
__device__ inline long long row_of(const ProjectArgs& args, long long task, int i) {
  if (args.epilogue != Epilogue::swiglu) return task * kTaskRows + i;
  const long long half = args.n_rows / 2;
  const long long row = task * (kTaskRows / 2) + i % (kTaskRows / 2);
  if (row >= half) return args.n_rows;
  return i < kTaskRows / 2 ? row : half + row;
}

/// Writes what becomes of y = sums of rows row ... (gate and up for SwiGLU) of one token.
template <typename T>
__device__ inline void finish(const ProjectArgs& args, int token, long long row, float y, float up) {
  switch (args.epilogue) {
    case Epilogue::store: {
      const float bias = args.bias ? to_float(static_cast<const T*>(args.bias)[row]) : 0.0f;
      static_cast<T*>(args.out)[token * args.n_rows + row] = from_float<T>(y + bias);
      return;
    }
    case Epilogue::add:
      static_cast<float*>(args.out)[token * args.n_rows + row] += y;
      return;
    case Epilogue::swiglu:
      static_cast<T*>(args.out)[token * (args.n_rows / 2) + row] = from_float<T>(y / (1.0f + expf(-y)) * up);
      return;
    case Epilogue::logits:
      static_cast<float*>(args.out)[token * args.n_rows + row] = y;
      return;
  }
}

/// The tokens' inputs, normed if asked for, in shared memory as T: row t at input + t * args.dim. The whole block takes
/// part; every sum has one order.
template <typename T>
__device__ void load_inputs(const ProjectArgs& args, T* input, float* sums) {
  for (int token = 0; token < args.n_tokens; ++token) {
    T* out = input + static_cast<long long>(token) * args.dim;
    if (!args.norm_weight) {
      const T* x = static_cast<const T*>(args.x) + static_cast<long long>(token) * args.dim;
      for (int c = threadIdx.x; c < args.dim; c += kThreads) out[c] = x[c];
      continue;
    }
    const float* x = static_cast<const float*>(args.x) + static_cast<long long>(token) * args.dim;
    float squares = 0;
#pragma unroll 8
    for (int c = threadIdx.x; c < args.dim; c += kThreads) squares += x[c] * x[c];
    __syncthreads();  // sums of the token before have been read
    const float inverse = rsqrtf(block_sum<kThreads>(squares, sums) / static_cast<float>(args.dim) + args.eps);
    const T* weight = static_cast<const T*>(args.norm_weight);
#pragma unroll 8
    for (int c = threadIdx.x; c < args.dim; c += kThreads) out[c] = from_float<T>(x[c] * inverse * to_float(weight[c]));
  }
  __syncthreads();
}

/// The walk of one warp over its units: unit u of task i covers columns (warp + kWarps u) * 64 ... of the task's 8 rows.
struct Walk {
  int n_units;  // of this warp in one task
  long long n_total;

  __device__ Walk(const ProjectParams& p, int warp) {
    const int units = (p.args.dim + kUnitColumns - 1) / kUnitColumns;
    n_units = units > warp ? (units - warp - 1) / kWarps + 1 : 0;
    const long long tasks = p.n_tasks > blockIdx.x ? (p.n_tasks - blockIdx.x - 1) / gridDim.x + 1 : 0;
    n_total = tasks * n_units;
  }
};

/// Asks for unit `index` of this warp's walk: 32 bytes of row lane / 4 for each lane.
__device__ inline void fetch(const ProjectParams& p, const Walk& walk, int warp, long long index, char* stage) {
  if (index < walk.n_total) {
    const int lane = threadIdx.x % 32;
    const long long task = blockIdx.x + index / walk.n_units * gridDim.x;
    const int unit = warp + kWarps * static_cast<int>(index % walk.n_units);
    const long long row = row_of(p.args, task, lane / 4);
    const auto* weight = static_cast<const __nv_bfloat16*>(p.args.weight);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = unit * kUnitColumns + half * 32 + lane % 4 * 8;
      const bool wanted = row < p.args.n_rows && column < p.args.dim;
      copy_16_async(stage + half * 512 + lane * 16, weight + (wanted ? row * p.args.dim + column : 0), wanted);
    }
  }
  end_copy_group();  // empty at the end, so that the count of groups stays right
}

/// c += weights x tokens for the 64 columns of one unit. The columns of a lane's 16 bytes are dealt to the k of two mma
/// in another order than they stand, the same for both operands.
__device__ inline void multiply(const ProjectArgs& args, const __nv_bfloat16* input, int unit, const char* stage,
                                float (&c)[4]) {
  const int lane = threadIdx.x % 32;
  const int token = lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = unit * kUnitColumns + half * 32 + lane % 4 * 8;
    const uint4 w = *reinterpret_cast<const uint4*>(stage + half * 512 + lane * 16);
    uint4 x = {0, 0, 0, 0};
    if (token < args.n_tokens && column < args.dim) {
      x = *reinterpret_cast<const uint4*>(input + static_cast<long long>(token) * args.dim + column);
    }
    const unsigned low[4] = {x.x, 0, x.y, 0}, high[4] = {x.z, 0, x.w, 0};
    mma(c, low, w.x, w.y);
    mma(c, high, w.z, w.w);
  }
}

// One block a multiprocessor: tasks blockIdx.x, + gridDim.x, ... of 8 rows each, the columns dealt out to the warps.
__global__ void __launch_bounds__(kThreads) project_bf16_kernel(ProjectParams p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ float partial[2][kWarps][kMaxProjectTokens][kTaskRows];
  __shared__ float sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  char* ring = shared + warp * kStages * kUnitBytes;
  auto* input = reinterpret_cast<__nv_bfloat16*>(shared + kRingBytes);
  const Walk walk(p, warp);

  let_next_start();
  for (int i = 0; i < kStages - 1; ++i) fetch(p, walk, warp, i, ring + i * kUnitBytes);
  wait_for_previous();
  load_inputs(p.args, input, sums);

  long long index = 0;
  int parity = 0;
  for (long long task = blockIdx.x; task < p.n_tasks; task += gridDim.x, parity ^= 1) {
    float c[4] = {};
    for (int u = 0; u < walk.n_units; ++u, ++index) {
      const long long ahead = index + kStages - 1;
      fetch(p, walk, warp, ahead, ring + ahead % kStages * kUnitBytes);
      wait_copy_groups<kStages - 1>();  // unit `index` of this thread is there; no other thread reads it
      multiply(p.args, input, warp + kWarps * u, ring + index % kStages * kUnitBytes, c);
    }
    // c[0], c[1]: token lane / 4, rows 2 (lane % 4) and the next
    partial[parity][warp][lane / 4][lane % 4 * 2] = c[0];
    partial[parity][warp][lane / 4][lane % 4 * 2 + 1] = c[1];
    __syncthreads();  // one a task: the buffer of this parity is written again only after the next one
    if (threadIdx.x < kMaxProjectTokens * kTaskRows) {
      const int token = threadIdx.x / kTaskRows, i = threadIdx.x % kTaskRows;
      const long long row = row_of(p.args, task, i);
      const bool is_swiglu = p.args.epilogue == Epilogue::swiglu;
      if (token < p.args.n_tokens && row < p.args.n_rows && !(is_swiglu && i >= kTaskRows / 2)) {
        float y = 0, up = 0;
        for (int w = 0; w < kWarps; ++w) {
          y += partial[parity][w][token][i];
          if (is_swiglu) up += partial[parity][w][token][i + kTaskRows / 2];
        }
        finish<__nv_bfloat16>(p.args, token, row, y, up);
      }
    }
  }
}

// float32, and bfloat16 rows that are no multiple of 16 bytes: a warp a row, the lanes along its columns.
template <typename T>
__global__ void __launch_bounds__(kThreads) project_plain_kernel(ProjectArgs args) {
  extern __shared__ __align__(16) char shared[];
  __shared__ float sums[kWarps];
  T* input = reinterpret_cast<T*>(shared);
  let_next_start();
  wait_for_previous();
  load_inputs(args, input, sums);
  const long long n_out = args.epilogue == Epilogue::swiglu ? args.n_rows / 2 : args.n_rows;
  const int lane = threadIdx.x % 32;
  const T* weight = static_cast<const T*>(args.weight);
  for (long long row = blockIdx.x * kWarps + threadIdx.x / 32; row < n_out; row += gridDim.x * kWarps) {
    for (int token = 0; token < args.n_tokens; ++token) {
      const T* x = input + static_cast<long long>(token) * args.dim;
      float y = 0, up = 0;
      for (int c = lane; c < args.dim; c += 32) y += to_float(weight[row * args.dim + c]) * to_float(x[c]);
      y = warp_sum(y);
      if (args.epilogue == Epilogue::swiglu) {
        for (int c = lane; c < args.dim; c += 32) up += to_float(weight[(row + n_out) * args.dim + c]) * to_float(x[c]);
        up = warp_sum(up);
      }
      if (lane == 0) finish<T>(args, token, row, y, up);
    }
  }
}

/// The same args for tokens first ... first + n - 1.
ProjectArgs slice(const ProjectArgs& args, int first, int n) {
  ProjectArgs part = args;
  const auto advance = [&](const void* pointer, std::int64_t elements, std::size_t size) {
    return const_cast<char*>(static_cast<const char*>(pointer)) + elements * static_cast<std::int64_t>(size);
  };
  const std::size_t element = size_of(args.dtype);
  const bool is_float = args.epilogue == Epilogue::add || args.epilogue == Epilogue::logits;
  const std::int64_t width = args.epilogue == Epilogue::swiglu ? args.n_rows / 2 : args.n_rows;
  part.x = advance(args.x, static_cast<std::int64_t>(first) * args.dim, args.norm_weight ? sizeof(float) : element);
  part.out = advance(args.out, first * width, is_float ? sizeof(float) : element);
  part.n_tokens = n;
  return part;
}

template <typename T>
void launch_plain(const ProjectArgs& args, Stream stream, int n_blocks) {
  const std::size_t bytes = static_cast<std::size_t>(args.n_tokens) * args.dim * sizeof(T);
  launch_dependent(project_plain_kernel<T>, dim3(n_blocks), kThreads, bytes, stream, args);
}

void launch(const ProjectArgs& args, Stream stream) {
  const int n_multiprocessors = device_traits().n_multiprocessors;
  const auto blocks = [&](std::int64_t wanted) {
    return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, n_multiprocessors));
  };
  if (args.dtype == DType::f32) return launch_plain<float>(args, stream, blocks((args.n_rows + kWarps - 1) / kWarps));
  const bool has_whole_chunks = args.dim % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.weight) % 16 == 0;
  if (!has_whole_chunks) return launch_plain<__nv_bfloat16>(args, stream, blocks((args.n_rows + kWarps - 1) / kWarps));
  const int rows_out = args.epilogue == Epilogue::swiglu ? kTaskRows / 2 : kTaskRows;
  const std::int64_t n_out = args.epilogue == Epilogue::swiglu ? args.n_rows / 2 : args.n_rows;
  const ProjectParams p = {args, (n_out + rows_out - 1) / rows_out};
  const std::size_t bytes = kRingBytes + static_cast<std::size_t>(args.n_tokens) * args.dim * 2;
  launch_dependent(project_bf16_kernel, dim3(blocks(p.n_tasks)), kThreads, bytes, stream, p);
}

}  // namespace

void project(const ProjectArgs& args, Stream stream) {
  validate(args);
  // Inputs stand in shared memory; where not all tokens fit beside the ring, the weights are read again for the rest.
  const std::size_t token_bytes = static_cast<std::size_t>(args.dim) * size_of(args.dtype);
  const int at_once = static_cast<int>(std::clamp<std::size_t>(kMaxInputBytes / token_bytes, 1, args.n_tokens));
  for (int first = 0; first < args.n_tokens; first += at_once) {
    launch(slice(args, first, std::min(at_once, args.n_tokens - first)), stream);
  }
}

}  // namespace kvscope::kernels
