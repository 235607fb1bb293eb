#include <algorithm>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/project_many.cuh"
#include "kernels/cuda/project_parts.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/project.h"

// A decode step is as fast as its weights arrive, so everything here is about never letting the memory wait:
//  - one block a multiprocessor walks over its share of the rows, each warp with its own ring of requests in shared
//    memory; it meets the other warps only once for eight rows;
//  - the first requests go out before the kernel before has ended (launch.cuh): weights do not depend on it.
// bfloat16 rows go through mma.m16n8k16 with the tokens as its 16 rows (8 of them used): eight rows of weights at a
// time, and whether one token or eight share them changes neither the loads nor the order of any sum. More than eight, or
// more than fit beside the ring, go to cuda/project_many.cuh, which sums in the same order.
//
// Measured on an H200, Qwen3-8B shapes, one layer's four products in a row, us: 8 warps with 64-column units and an
// index that was divided 227, counted 139, four sums instead of one dependent chain 129, 16 warps 107, whole lines per
// request and 128-column units 105; the bytes alone take 83.

namespace kvscope::kernels {
namespace {

using namespace project_parts;

constexpr int kTokens = 8;    // of a launch of the kernels here; more go to project_many.cuh
constexpr int kTaskRows = 8;  // rows of weights of a task: the 8 columns of an mma
constexpr int kUnitBytes = kTaskRows * kUnitColumns * 2;
constexpr int kStages = 3;  // requests of a unit that a warp has under way, of which it waits for the oldest
constexpr std::size_t kRingBytes = std::size_t{kWarps} * kStages * kUnitBytes;
static_assert(kRingBytes == 96 * 1024, "a block, so that two kernels fit a multiprocessor");
constexpr int kMaxNorms = 2;  // tokens that each block norms by itself; of more the norm is a launch
constexpr std::size_t kMaxInputBytes = 120 * 1024;  // of shared memory for the tokens

struct ProjectParams {
  ProjectArgs args;
  long long n_tasks;
};

/// Which row of the weights is row i (0 ... 7) of a task; SwiGLU wants a gate row and its up row in the same one.
__device__ inline long long row_of(const ProjectArgs& args, long long task, int i) {
  if (!is_gated(args.epilogue)) return task * kTaskRows + i;
  const long long half = args.n_rows / 2;
  const long long row = task * (kTaskRows / 2) + i % (kTaskRows / 2);
  if (row >= half) return args.n_rows;
  return i < kTaskRows / 2 ? row : half + row;
}

/// The tokens' inputs in shared memory as T, row t at input + t * args.dim, once the kernel before has ended. The whole
/// block takes part; every sum has one order.
template <typename T>
__device__ void load_inputs(const ProjectArgs& args, T* input, float* sums) {
  NormRow<T> row;
  const bool fits = NormRow<T>::fits(args);
  if (fits) row.load_weight(args);
  wait_for_previous();
  if (!args.norm_weight) {
    const T* x = static_cast<const T*>(args.x);
    const int n = args.n_tokens * args.dim;
    constexpr int kChunk = Chunk<T>::kSize;
    const bool has_chunks = n % kChunk == 0 && reinterpret_cast<unsigned long long>(x) % 16 == 0;
    const int n_chunks = has_chunks ? n / kChunk : 0;
    for (int i = threadIdx.x; i < n_chunks; i += kThreads) store_chunk(input + i * kChunk, load_chunk(x + i * kChunk));
    for (int c = n_chunks * kChunk + threadIdx.x; c < n; c += kThreads) input[c] = x[c];
  }
  for (int token = 0; args.norm_weight && token < args.n_tokens; ++token) {
    T* out = input + static_cast<long long>(token) * args.dim;
    if (fits) {
      row.norm(args, token, out, sums);
    } else {
      norm_long_row(args, token, out, sums);
    }
  }
  __syncthreads();
}

/// Where in a unit's 2 KB the 16 bytes of `row` at chunk 0 ... 15 lie. Odd rows are turned by half a line: two rows
/// read side by side then fall into different banks.
__device__ inline int place(int row, int chunk) {
  return chunk / 8 * 1024 + row * 128 + ((chunk % 8) ^ (row % 2 * 4)) * 16;
}

/// What one warp asks for: of each of the block's tasks (blockIdx.x, + gridDim.x, ...) the units warp, + kWarps, ... of
/// 8 rows and 128 columns; a request of the warp brings four whole lines. Counted on, never divided: a division costs
/// more than everything else that is done for a unit.
class Fetcher {
 public:
  __device__ Fetcher(const ProjectParams& p, char* ring) : p_(p), ring_(ring), task_(blockIdx.x) { begin_task(); }

  __device__ void next() {
    if (task_ < p_.n_tasks && column_ < p_.args.dim) {
      char* stage = ring_ + stage_ * kUnitBytes;
      const int row = threadIdx.x % 32 / 8, chunk = threadIdx.x % 8;
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // rows 0 ... 3 and 4 ... 7 of the first line, then of the second
        const int column = column_ + i / 2 * 64 + chunk * 8;
        const bool wanted = has_row_[i % 2] && column < p_.args.dim;
        copy_16_async(stage + place(row + i % 2 * 4, i / 2 * 8 + chunk), row_[i % 2] + (wanted ? column : 0), wanted);
      }
      column_ += kWarps * kUnitColumns;
      if (column_ >= p_.args.dim) {
        task_ += gridDim.x;
        begin_task();
      }
    }
    end_copy_group();  // empty at the end, so that the count of groups stays right
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

 private:
  __device__ void begin_task() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long row = row_of(p_.args, task_, threadIdx.x % 32 / 8 + 4 * i);
      has_row_[i] = row < p_.args.n_rows;
      row_[i] = static_cast<const __nv_bfloat16*>(p_.args.weight) + (has_row_[i] ? row * p_.args.dim : 0);
    }
    column_ = static_cast<int>(threadIdx.x) / 32 * kUnitColumns;
  }

  const ProjectParams& p_;
  char* ring_;
  long long task_;
  const __nv_bfloat16* row_[2];
  bool has_row_[2];
  int column_;
  int stage_ = 0;
};

/// c += weights x tokens for the columns of one unit, in four sums that do not wait for each other. The columns of a
/// lane's 16 bytes are dealt to the k of two mma in another order than they stand, the same for both operands.
__device__ inline void multiply(const ProjectArgs& args, const __nv_bfloat16* input, int first_column,
                                const char* stage, float (&c)[4][4]) {
  const int lane = threadIdx.x % 32;
  const int token = lane / 4;  // and row of the weights
#pragma unroll
  for (int i = 0; i < kUnitColumns / 32; ++i) {
    const int column = first_column + i * 32 + lane % 4 * 8;
    const uint4 w = *reinterpret_cast<const uint4*>(stage + place(token, i * 4 + lane % 4));
    uint4 x = {0, 0, 0, 0};
    if (token < args.n_tokens && column < args.dim) {
      x = *reinterpret_cast<const uint4*>(input + static_cast<long long>(token) * args.dim + column);
    }
    const unsigned low[4] = {x.x, 0, x.y, 0}, high[4] = {x.z, 0, x.w, 0};
    mma(c[i % 2 * 2], low, w.x, w.y);
    mma(c[i % 2 * 2 + 1], high, w.z, w.w);
  }
}

// One block a multiprocessor: tasks blockIdx.x, + gridDim.x, ... of 8 rows each, the columns dealt out to the warps.
__global__ void __launch_bounds__(kThreads, 1) project_bf16_kernel(ProjectParams p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ float partial[2][kWarps][kTokens][kTaskRows];
  __shared__ float sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  char* ring = shared + warp * kStages * kUnitBytes;
  auto* input = reinterpret_cast<__nv_bfloat16*>(shared + kRingBytes);
  Fetcher fetcher(p, ring);

  let_next_start();
  for (int i = 0; i < kStages - 1; ++i) fetcher.next();
  load_inputs(p.args, input, sums);

  int stage = 0, parity = 0;
  for (long long task = blockIdx.x; task < p.n_tasks; task += gridDim.x, parity ^= 1) {
    float c[4][4] = {};
    for (int column = warp * kUnitColumns; column < p.args.dim; column += kWarps * kUnitColumns) {
      wait_copy_groups<kStages - 2>();
      __syncwarp();  // the oldest unit is there for all lanes, and none still reads the one before, whose place is next
      fetcher.next();
      multiply(p.args, input, column, ring + stage * kUnitBytes, c);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    // c[.][0], c[.][1]: token lane / 4, rows 2 (lane % 4) and the next
    partial[parity][warp][lane / 4][lane % 4 * 2] = (c[0][0] + c[1][0]) + (c[2][0] + c[3][0]);
    partial[parity][warp][lane / 4][lane % 4 * 2 + 1] = (c[0][1] + c[1][1]) + (c[2][1] + c[3][1]);
    __syncthreads();  // one a task: the buffer of this parity is written again only after the next one
    if (threadIdx.x < kTokens * kTaskRows) {
      const int token = threadIdx.x / kTaskRows, i = threadIdx.x % kTaskRows;
      const long long row = row_of(p.args, task, i);
      const bool gated = is_gated(p.args.epilogue);
      if (token < p.args.n_tokens && row < p.args.n_rows && !(gated && i >= kTaskRows / 2)) {
        const auto sum_of = [&](int of_task) {
          return tree_sum<kWarps>([&](int w) { return partial[parity][w][token][of_task]; });
        };
        const float y = sum_of(i);
        finish<__nv_bfloat16>(p.args, token, row, y, gated ? sum_of(i + kTaskRows / 2) : 0.0f);
      }
    }
  }
}

// float32, and bfloat16 rows that are no multiple of 16 bytes: a warp a row, the lanes along its columns.
template <typename T>
__global__ void __launch_bounds__(kThreads) project_plain_kernel(ProjectArgs args) {
  extern __shared__ __align__(128) char shared[];
  __shared__ float sums[kWarps];
  T* input = reinterpret_cast<T*>(shared);
  let_next_start();
  load_inputs(args, input, sums);
  const long long n_out = is_gated(args.epilogue) ? args.n_rows / 2 : args.n_rows;
  const int lane = threadIdx.x % 32;
  const T* weight = static_cast<const T*>(args.weight);
  for (long long row = blockIdx.x * kWarps + threadIdx.x / 32; row < n_out; row += gridDim.x * kWarps) {
    for (int token = 0; token < args.n_tokens; ++token) {
      const T* x = input + static_cast<long long>(token) * args.dim;
      float y = 0, up = 0;
      for (int c = lane; c < args.dim; c += 32) y += to_float(weight[row * args.dim + c]) * to_float(x[c]);
      y = warp_sum(y);
      if (is_gated(args.epilogue)) {
        for (int c = lane; c < args.dim; c += 32) up += to_float(weight[(row + n_out) * args.dim + c]) * to_float(x[c]);
        up = warp_sum(up);
      }
      if (lane == 0) finish<T>(args, token, row, y, up);
    }
  }
}

// The normed rows of all tokens into args.scratch, one block each.
__global__ void __launch_bounds__(kThreads) norm_rows_kernel(ProjectArgs args) {
  __shared__ float sums[kWarps];
  NormRow<__nv_bfloat16> row;
  const bool fits = NormRow<__nv_bfloat16>::fits(args);
  const int token = static_cast<int>(blockIdx.x);
  auto* out = static_cast<__nv_bfloat16*>(args.scratch) + static_cast<long long>(token) * args.dim;
  let_next_start();
  if (fits) row.load_weight(args);
  wait_for_previous();
  if (fits) {
    row.norm(args, token, out, sums);
  } else {
    norm_long_row(args, token, out, sums);
  }
}

/// The same args for tokens first ... first + n - 1.
ProjectArgs slice(const ProjectArgs& args, int first, int n) {
  ProjectArgs part = args;
  const auto advance = [&](const void* pointer, std::int64_t elements, std::size_t size) {
    return const_cast<char*>(static_cast<const char*>(pointer)) + elements * static_cast<std::int64_t>(size);
  };
  const std::size_t element = size_of(args.dtype);
  const bool is_float = writes_floats(args.epilogue);
  const std::int64_t width = is_gated(args.epilogue) ? args.n_rows / 2 : args.n_rows;
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
  const int rows_out = is_gated(args.epilogue) ? kTaskRows / 2 : kTaskRows;
  const std::int64_t n_out = is_gated(args.epilogue) ? args.n_rows / 2 : args.n_rows;
  const ProjectParams p = {args, (n_out + rows_out - 1) / rows_out};
  const std::size_t bytes = kRingBytes + static_cast<std::size_t>(args.n_tokens) * args.dim * 2;
  launch_dependent(project_bf16_kernel, dim3(blocks(p.n_tasks)), kThreads, bytes, stream, p);
}

}  // namespace

void cuda::project(const ProjectArgs& all, Stream stream) {
  ProjectArgs args = all;
  if (args.norm_weight && args.scratch && args.dtype == DType::bf16 && args.n_tokens > kMaxNorms) {
    launch_dependent(norm_rows_kernel, dim3(args.n_tokens), kThreads, 0, stream, args);
    args.x = args.scratch;
    args.norm_weight = nullptr;
  }
  // Inputs lie in shared memory; where not all tokens fit beside the ring, the weights are read again for the rest.
  const std::size_t token_bytes = static_cast<std::size_t>(args.dim) * size_of(args.dtype);
  const int fit = static_cast<int>(std::clamp<std::size_t>(kMaxInputBytes / token_bytes, 1, kTokens));
  int first = 0;
  while (first < args.n_tokens) {
    const int left = args.n_tokens - first;
    const int many = left > fit ? project_many::most_tokens(args, left) : 0;
    const int n = many > fit ? many : std::min(fit, left);
    const ProjectArgs part = slice(args, first, n);
    many > fit ? project_many::launch(part, stream) : launch(part, stream);
    first += n;
  }
}

}  // namespace kvscope::kernels
