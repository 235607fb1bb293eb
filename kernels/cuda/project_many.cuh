#pragma once
// Products of bfloat16 rows with up to 32 tokens at once, on devices with clusters of blocks: the weights are read once.
//
// The inputs of so many tokens do not fit beside a ring of requests in one multiprocessor. So the blocks of a cluster share
// the columns: each holds the inputs of its own, all walk over the same rows, and what they found meets in the shared memory
// of one of them. Here the weights are the 16 rows of an mma and the tokens its 8 columns.
//
// Measured on an H200, a step of Qwen3-8B shapes after a prompt of 128 tokens: 1 sequence 4.38 ms, 8 4.94, 16 6.70, 32 9.16.
// With 32, requests of 64 columns took 10.47 (in clusters of four blocks, of which 120 fit into 132 multiprocessors), clusters
// of two with one exchange 9.43.
//
// A token's sum has the order of project.cu, bit for bit: "lane" w (0 ... 15; there a warp) has the units w, w + 16, ... of
// 128 columns in four chains, and the sixteen are added up as a binary tree. A block has a power of two of them.

#include <algorithm>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/project_parts.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace kvscope::kernels::project_many {

using namespace project_parts;

constexpr int kGroupRows = 16;  // rows of weights of a warp's task
constexpr int kRequestColumns = 32;
constexpr int kRequests = kUnitColumns / kRequestColumns;  // of a unit
constexpr int kRequestBytes = kGroupRows * kRequestColumns * 2;
constexpr int kStages = 4;  // requests of a warp in shared memory
constexpr std::size_t kRingBytes = std::size_t{kWarps} * kStages * kRequestBytes;
constexpr std::size_t kMaxSharedBytes = 227 * 1024;

/// How a product is shared out.
struct Plan {
  int n_blocks = 0;     // of a cluster: 1, 2, 4, 8
  int n_lanes = 0;      // of a block: a power of two
  int n_groups = 0;     // of 16 rows, that a block works on at once: a warp has a lane and a group
  int n_turns = 0;      // units of a lane
  int token_tiles = 0;  // of eight tokens: 1, 2, 4
  int n_exchanges = 0;  // places for the sums of a task: 2, or 1 where there is no room
  std::size_t shared_bytes = 0;
};

__host__ __device__ constexpr std::size_t exchange_bytes(int token_tiles) {
  return std::size_t{kWarps} * kGroupRows * 8 * token_tiles * 4;
}
constexpr std::size_t unit_bytes(int token_tiles) { return std::size_t{kUnitColumns} * 2 * 8 * token_tiles; }

/// n_blocks is 0 if that many tokens do not fit.
inline Plan plan_of(int dim, int n_tokens) {
  const int token_tiles = n_tokens <= 8 ? 1 : n_tokens <= 16 ? 2 : 4;
  const int n_units = (dim + kUnitColumns - 1) / kUnitColumns;
  int used = 1;  // lanes that have a unit
  while (used < kWarps && used < n_units) used *= 2;
  Plan plan = {.n_turns = (n_units + kWarps - 1) / kWarps, .token_tiles = token_tiles};
  for (int n_exchanges = 2; n_exchanges > 0; --n_exchanges) {
    for (int n_blocks = 1; n_blocks <= (used == kWarps ? 8 : 1); n_blocks *= 2) {
      const int n_lanes = used / n_blocks;
      const std::size_t bytes =
          kRingBytes + n_exchanges * exchange_bytes(token_tiles) + n_lanes * plan.n_turns * unit_bytes(token_tiles);
      if (bytes > kMaxSharedBytes) continue;
      plan.n_blocks = n_blocks;
      plan.n_lanes = n_lanes;
      plan.n_groups = kWarps / n_lanes;
      plan.n_exchanges = n_exchanges;
      plan.shared_bytes = bytes;
      return plan;
    }
  }
  return plan;
}

struct Params {
  ProjectArgs args;
  Plan plan;
  long long n_tasks;  // of n_groups groups of rows
};

/// Which row of the weights is row i (0 ... 15) of a group; SwiGLU wants a gate row and its up row in the same one.
__device__ inline long long row_of(const ProjectArgs& args, long long group, int i) {
  if (args.epilogue != Epilogue::swiglu) return group * kGroupRows + i;
  const long long half = args.n_rows / 2;
  const long long row = group * (kGroupRows / 2) + i % (kGroupRows / 2);
  if (row >= half) return args.n_rows;
  return i < kGroupRows / 2 ? row : half + row;
}

/// Where the 16 bytes of a token's row of a unit at chunk 0 ... 15 lie. Odd rows are turned by half a line: two rows read side
/// by side then fall into different banks.
__device__ inline int place(int row, int chunk) { return row * kUnitColumns * 2 + (chunk ^ (row % 2 * 4)) * 16; }

/// The same for a row of a request, chunk 0 ... 3: two rows are a line.
__device__ inline int place_of_request(int row, int chunk) { return (row * 4 + chunk) * 16; }

/// Where this block is in its cluster, and what this warp has of a task.
struct Share {
  int rank, lane, group;  // lane: of all sixteen; group: of rows in a task
  int cluster, n_clusters;

  __device__ explicit Share(const Plan& plan)
      : rank(static_cast<int>(blockIdx.x) % plan.n_blocks),
        lane(rank * plan.n_lanes + static_cast<int>(threadIdx.x) / 32 % plan.n_lanes),
        group(static_cast<int>(threadIdx.x) / 32 / plan.n_lanes),
        cluster(static_cast<int>(blockIdx.x) / plan.n_blocks),
        n_clusters(static_cast<int>(gridDim.x) / plan.n_blocks) {}
};

/// What one warp asks for: the rows of its group in each of the cluster's tasks, a quarter of a unit of its lane at a time.
/// Counted on, never divided.
class Fetcher {
 public:
  __device__ Fetcher(const Params& p, const Share& share, char* ring)
      : p_(p), share_(share), ring_(ring), task_(share.cluster), unit_(share.lane * kUnitColumns) {
    begin_task();
  }

  __device__ void next() {
    if (task_ < p_.n_tasks && unit_ < p_.args.dim) {
      char* stage = ring_ + stage_ * kRequestBytes;
      const int row = threadIdx.x % 32 / 4, chunk = threadIdx.x % 4;
      const int column = unit_ + part_ * kRequestColumns + chunk * 8;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool wanted = has_row_[i] && column < p_.args.dim;
        copy_16_async(stage + place_of_request(row + 8 * i, chunk), row_[i] + (wanted ? column : 0), wanted);
      }
      part_ = part_ + 1 == kRequests ? 0 : part_ + 1;
      if (part_ == 0) unit_ += kWarps * kUnitColumns;
      if (unit_ >= p_.args.dim) {
        task_ += share_.n_clusters;
        unit_ = share_.lane * kUnitColumns;
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
      const long long row =
          row_of(p_.args, task_ * p_.plan.n_groups + share_.group, static_cast<int>(threadIdx.x) % 32 / 4 + 8 * i);
      has_row_[i] = row < p_.args.n_rows;
      row_[i] = static_cast<const __nv_bfloat16*>(p_.args.weight) + (has_row_[i] ? row * p_.args.dim : 0);
    }
  }

  const Params& p_;
  const Share& share_;
  char* ring_;
  long long task_;
  const __nv_bfloat16* row_[2];
  bool has_row_[2];
  int unit_;  // its first column
  int part_ = 0, stage_ = 0;
};

/// This block's inputs in shared memory: of each unit of its lanes the tokens, 256 bytes each; zeros where there are none.
template <int kTiles>
__device__ void load_inputs(const Params& p, const Share& share, char* input) {
  constexpr int kTokens = 8 * kTiles, kChunks = kUnitColumns / 8;
  const auto* x = static_cast<const __nv_bfloat16*>(p.args.x);
  const int n = p.plan.n_lanes * p.plan.n_turns * kTokens * kChunks;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    const int chunk = i % kChunks, token = i / kChunks % kTokens, unit = i / kChunks / kTokens;
    const int lane = share.rank * p.plan.n_lanes + unit % p.plan.n_lanes;
    const int column = (unit / p.plan.n_lanes * kWarps + lane) * kUnitColumns + chunk * 8;
    const bool wanted = token < p.args.n_tokens && column < p.args.dim;
    copy_16_async(input + place(unit * kTokens + token, chunk),
                  x + (wanted ? static_cast<long long>(token) * p.args.dim + column : 0), wanted);
  }
  end_copy_group();
  wait_copy_groups<0>();
  __syncthreads();
}

/// c += weights x tokens for one request: the four chains of project.cu, of which each 32 columns go into two. The columns of
/// a thread's 16 bytes are dealt to the k of two mma in an order that both operands share.
template <int kTiles>
__device__ inline void multiply(const char* request, const char* unit, int part, float (&c)[4][kTiles][4]) {
  const int row = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;  // row of the weights, and token of a tile
  const uint4 a = *reinterpret_cast<const uint4*>(request + place_of_request(row, quarter));
  const uint4 b = *reinterpret_cast<const uint4*>(request + place_of_request(row + 8, quarter));
  const unsigned low[4] = {a.x, b.x, a.y, b.y}, high[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const uint4 x = *reinterpret_cast<const uint4*>(unit + place(tile * 8 + row, part * 4 + quarter));
    mma(c[part % 2 * 2][tile], low, x.x, x.y);
    mma(c[part % 2 * 2 + 1][tile], high, x.z, x.w);
  }
}

/// Where the sums of a group's row lie, of all tokens: turned so that eight rows by four pairs of tokens are written, and
/// sixteen rows by two tokens read, from different banks.
template <int kTiles>
__device__ inline int place_of_sum(int row, int token) {
  const int turn = kTiles == 4 ? row % 4 * 8 : kTiles == 2 ? row / 2 % 2 * 8 : 0;
  return row * 8 * kTiles + (token ^ (turn | row % 16 / 4 * 2));
}

/// This warp's sums into the shared memory of the block that finishes its group: [lanes, groups, 16, tokens].
template <int kTiles>
__device__ void hand_over(const Params& p, const Share& share, const float (&c)[4][kTiles][4], float* exchange) {
  const bool is_cluster = p.plan.n_blocks > 1;
  float* to = in_block(exchange, is_cluster ? share.group : 0, p.plan.n_blocks);
  int row = (is_cluster ? share.lane : share.lane * p.plan.n_groups + share.group) * kGroupRows;
  row += static_cast<int>(threadIdx.x) % 32 / 4;
  const int pair = threadIdx.x % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = (c[0][tile][i] + c[1][tile][i]) + (c[2][tile][i] + c[3][tile][i]);
    *reinterpret_cast<float2*>(to + place_of_sum<kTiles>(row, tile * 8 + pair)) = make_float2(sum[0], sum[1]);
    *reinterpret_cast<float2*>(to + place_of_sum<kTiles>(row + 8, tile * 8 + pair)) = make_float2(sum[2], sum[3]);
  }
}

/// Adds up the lanes of what this block finishes of a task, and writes what becomes of it.
template <int kTiles>
__device__ void finish_task(const Params& p, const Share& share, long long task, const float* exchange) {
  constexpr int kTokens = 8 * kTiles;
  const bool is_cluster = p.plan.n_blocks > 1, is_swiglu = p.args.epilogue == Epilogue::swiglu;
  const int n_groups = is_cluster ? 1 : p.plan.n_groups;
  const int n_lanes = p.plan.n_lanes * p.plan.n_blocks;
  for (int i = threadIdx.x; i < n_groups * kGroupRows * kTokens; i += kThreads) {
    const int row = i % kGroupRows, token = i / kGroupRows % kTokens, group = i / kGroupRows / kTokens;
    const long long of_group = task * p.plan.n_groups + (is_cluster ? share.rank : group);
    const long long out = row_of(p.args, of_group, row);
    if (token >= p.args.n_tokens || out >= p.args.n_rows || (is_swiglu && row >= kGroupRows / 2)) continue;
    const auto sum_of = [&](int of_row) {
      return tree_sum<kWarps>([&](int lane) {
        const int at = (lane * n_groups + group) * kGroupRows + of_row;
        return lane < n_lanes ? exchange[place_of_sum<kTiles>(at, token)] : 0.0f;
      });
    };
    finish<__nv_bfloat16>(p.args, token, out, sum_of(row), is_swiglu ? sum_of(row + kGroupRows / 2) : 0.0f);
  }
}

/// c = the sums of this warp's columns in a task's group of rows.
template <int kTiles>
__device__ inline void sum_columns(const Params& p, const Share& share, const char* ring, const char* input,
                                   Fetcher& fetcher, int& stage, float (&c)[4][kTiles][4]) {
  constexpr int kUnitBytes = kUnitColumns * 2 * 8 * kTiles;
#pragma unroll
  for (int i = 0; i < 4 * kTiles * 4; ++i) c[i / (kTiles * 4)][i / 4 % kTiles][i % 4] = 0;
  const char* unit = input + share.lane % p.plan.n_lanes * kUnitBytes;
  for (int column = share.lane * kUnitColumns; column < p.args.dim; column += kWarps * kUnitColumns) {
#pragma unroll
    for (int part = 0; part < kRequests; ++part) {
      wait_copy_groups<kStages - 2>();
      __syncwarp();  // the oldest request is there for all lanes, and none still reads the one before, whose place is next
      fetcher.next();
      multiply<kTiles>(ring + stage * kRequestBytes, unit, part, c);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    unit += p.plan.n_lanes * kUnitBytes;
  }
}

// A cluster takes tasks cluster, + n_clusters, ... A task is finished after the sums of the next one are made: the blocks
// have met by then, and no warp waits for another. With two exchanges the sums of a task are handed over while others still
// finish the one before; who has finished it has arrived, so that one meeting a task orders both.
template <int kTiles>
__global__ void __launch_bounds__(kThreads, 1) project_many_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  const Share share(p.plan);
  char* ring = shared + threadIdx.x / 32 * kStages * kRequestBytes;
  auto* exchange = reinterpret_cast<float*>(shared + kRingBytes);
  char* input = shared + kRingBytes + p.plan.n_exchanges * exchange_bytes(kTiles);
  constexpr int kExchangeFloats = static_cast<int>(exchange_bytes(kTiles) / sizeof(float));
  Fetcher fetcher(p, share, ring);
  const Meeting meeting(p.plan.n_blocks);

  let_next_start();
  for (int i = 0; i < kStages - 1; ++i) fetcher.next();
  wait_for_previous();
  load_inputs<kTiles>(p, share, input);

  int stage = 0, parity = 0;
  float c[4][kTiles][4];
  meeting.arrive();  // all blocks are there
  long long task = share.cluster;
  for (; task < p.n_tasks; task += share.n_clusters) {
    sum_columns<kTiles>(p, share, ring, input, fetcher, stage, c);
    meeting.wait();  // the sums of the task before are there
    if (task != share.cluster)
      finish_task<kTiles>(p, share, task - share.n_clusters, exchange + parity * kExchangeFloats);
    if (p.plan.n_exchanges == 2) {
      parity ^= 1;
    } else {
      meeting.arrive();
      meeting.wait();  // and have been read
    }
    hand_over<kTiles>(p, share, c, exchange + parity * kExchangeFloats);
    meeting.arrive();
  }
  meeting.wait();  // no block ends while another may write to it
  if (task != share.cluster)
    finish_task<kTiles>(p, share, task - share.n_clusters, exchange + parity * kExchangeFloats);
}

/// How many of `n` tokens without a norm one launch can take; 0: none.
inline int most_tokens(const ProjectArgs& args, int n) {
  const auto is_aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  if (args.norm_weight || args.dtype != DType::bf16 || args.dim % 8 != 0) return 0;
  if (!is_aligned(args.weight) || !is_aligned(args.x) || !device_traits().has_dependent_launch) return 0;
  for (const int tokens : {32, 16, 8})
    if (plan_of(args.dim, std::min(n, tokens)).n_blocks > 0) return std::min(n, tokens);
  return 0;
}

/// args.n_tokens is at most what most_tokens() gave.
inline void launch(const ProjectArgs& args, Stream stream) {
  Params p = {args, plan_of(args.dim, args.n_tokens), 0};
  const bool is_swiglu = args.epilogue == Epilogue::swiglu;
  const std::int64_t n_out = is_swiglu ? args.n_rows / 2 : args.n_rows;
  const int rows_out = (is_swiglu ? kGroupRows / 2 : kGroupRows) * p.plan.n_groups;
  p.n_tasks = (n_out + rows_out - 1) / rows_out;
  const auto with = [&](void (*kernel)(Params)) {
    const int most = most_clusters(kernel, p.plan.n_blocks, kThreads, p.plan.shared_bytes);
    const auto n_clusters = static_cast<unsigned>(std::clamp<std::int64_t>(p.n_tasks, 1, most));
    launch_dependent_clusters(kernel, dim3(n_clusters), p.plan.n_blocks, kThreads, p.plan.shared_bytes, stream, p);
  };
  if (p.plan.token_tiles == 1) return with(project_many_kernel<1>);
  if (p.plan.token_tiles == 2) return with(project_many_kernel<2>);
  with(project_many_kernel<4>);
}

}  // namespace kvscope::kernels::project_many
