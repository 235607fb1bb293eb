#pragma once
// Products of bfloat16 rows with up to 32 tokens at once, on devices with clusters of blocks: the weights are read once.
//
// The inputs of so many tokens do not always fit beside a ring of requests in one multiprocessor. Then the blocks of a
// cluster share the columns: each holds the inputs of its own, and all walk over the same rows. Here the weights are the 16
// rows of an mma and the tokens its 8 columns. Eight warps multiply and never wait for each other. Four other warps add up
// the sums of a task and write the result, while the eight already read the weights of the next tasks.
//
// Measured on an H200, the four products of a layer of Qwen3-8B shapes, us: 8 tokens 100, 16 120, 32 150; one token takes 93
// in project.cu. With the same warps for both jobs and half lines as requests, 16 took 144 and 32 took 196. Clusters of two
// where one block is enough: 122. Weights in registers instead of a ring: 157.
//
// A token's sum has the order of project.cu, bit for bit: "lane" w (0 ... 15; there a warp) has the units w, w + 16, ... of
// 128 columns in four chains, and the sixteen are added up as a binary tree. A warp takes a strip of two neighbouring lanes
// one after the other, and a block a power of two of strips.

#include <algorithm>

#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/project_share.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace kvscope::kernels::project_many {

/// c += weights x tokens for 32 columns: two of the four chains of project.cu. The columns of a thread's 16 bytes are dealt
/// to the k of two mma in an order that both operands share.
template <int kTiles>
__device__ inline void multiply(const char* request, const char* unit, int half, int part, float (&c)[4][kTiles][4]) {
  const int row = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;  // row of the weights, and token of a tile
  const uint4 a = *reinterpret_cast<const uint4*>(request + place(row, kRequestColumns * 2, part * 4 + quarter));
  const uint4 b = *reinterpret_cast<const uint4*>(request + place(row + 8, kRequestColumns * 2, part * 4 + quarter));
  const unsigned low[4] = {a.x, b.x, a.y, b.y}, high[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const uint4 x =
        *reinterpret_cast<const uint4*>(unit + place(tile * 8 + row, kUnitColumns * 2, half * 8 + part * 4 + quarter));
    mma(c[part * 2][tile], low, x.x, x.y);
    mma(c[part * 2 + 1][tile], high, x.z, x.w);
  }
}

/// Where the sums of a group's row lie, of all tokens: turned so that eight rows by four pairs of tokens are written, and
/// sixteen rows by two tokens read, from different banks.
template <int kTiles>
__device__ inline int place_of_sum(int row, int token) {
  const int turn = kTiles == 4 ? row % 4 * 8 : kTiles == 2 ? row / 2 % 2 * 8 : 0;
  return row * 8 * kTiles + (token ^ (turn | row % 16 / 4 * 2));
}

/// The barriers of a block, in shared memory. Sums of tasks go into two exchanges in turn.
struct Barriers {
  Arrivals full[2];               // the exchange of this block has all sums of a task
  Arrivals read[kMostBlocks][2];  // block i has read them from its own

  /// By one thread.
  __device__ void expect(int n_blocks) {
    for (int i = 0; i < 2; ++i) {
      full[i].expect(kMultiplyWarps * 32);
      for (int block = 0; block < n_blocks; ++block) read[block][i].expect(1);
    }
    Arrivals::publish();
  }
};

/// One of the eight warps that multiply.
template <int kTiles>
class Multiplier {
 public:
  static constexpr int kStages = stages(kTiles);

  /// `fetcher` has begun kStages - 1 requests.
  __device__ Multiplier(const Params& p, const Share& share, char* ring, const char* input,
                        const Fetcher<kStages>& fetcher)
      : p_(p), share_(share), ring_(ring), input_(input), fetcher_(fetcher) {}

  /// exchange: [2, strips of the cluster, groups that a block finishes, 16, tokens] of this block.
  __device__ void run(float* exchange, Barriers& barriers) {
    int turn = 0;
    for (long long task = share_.cluster; task < p_.n_tasks; task += share_.n_clusters, ++turn) {
      float first[kTiles][4], second[kTiles][4];
      sum_lane(0, first);
      sum_lane(1, second);
      const int to = share_.is_cluster ? share_.group : 0;
      if (turn >= 2) barriers.read[to][turn % 2].wait((turn / 2 - 1) % 2);
      hand_over(first, second, in_block(exchange + turn % 2 * exchange_floats(kTiles), to, p_.plan.n_blocks));
      // Each thread for itself: what one released would not have to include what the others wrote.
      share_.is_cluster ? barriers.full[turn % 2].arrive_in(to) : barriers.full[turn % 2].arrive();
    }
  }

 private:
  /// sum = the columns of one lane of this warp's strip.
  __device__ void sum_lane(int lane, float (&sum)[kTiles][4]) {
    constexpr int kUnitBytes = kUnitColumns * 2 * 8 * kTiles;
    const int n_lanes = 2 * p_.plan.n_strips;
    float c[4][kTiles][4] = {};
    const char* unit = input_ + (2 * share_.strip + lane) * kUnitBytes;
    for (int column = share_.first_column(p_.plan, lane); column < p_.args.dim; column += kLanes * kUnitColumns) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wait_copy_groups<kStages - 2>();
        __syncwarp();  // the oldest request is there for all threads, and none reads the one before, whose place is next
        fetcher_.next();
        const char* request = ring_ + stage_ * kRequestBytes;
        multiply<kTiles>(request, unit, half, 0, c);
        multiply<kTiles>(request, unit, half, 1, c);
        stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
      }
      unit += n_lanes * kUnitBytes;
    }
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i)
      sum[i / 4][i % 4] = (c[0][i / 4][i % 4] + c[1][i / 4][i % 4]) + (c[2][i / 4][i % 4] + c[3][i / 4][i % 4]);
  }

  __device__ void hand_over(const float (&a)[kTiles][4], const float (&b)[kTiles][4], float* to) {
    int row = share_.is_cluster ? share_.rank * p_.plan.n_strips + share_.strip
                                : share_.strip * p_.plan.n_groups + share_.group;
    row = row * kGroupRows + static_cast<int>(threadIdx.x) % 32 / 4;
    const int pair = threadIdx.x % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const auto store = [&](int at, int i) {
        *reinterpret_cast<float2*>(to + place_of_sum<kTiles>(at, tile * 8 + pair)) =
            make_float2(a[tile][i] + b[tile][i], a[tile][i + 1] + b[tile][i + 1]);
      };
      store(row, 0);
      store(row + 8, 2);
    }
  }

  const Params& p_;
  const Share& share_;
  char* ring_;
  const char* input_;
  Fetcher<kStages> fetcher_;
  int stage_ = 0;
};

/// Adds up the strips of what this block finishes of a task, and writes what becomes of it. By the finishing warps.
template <int kTiles>
__device__ void finish_task(const Params& p, const Share& share, long long task, const float* exchange) {
  constexpr int kTokens = 8 * kTiles;
  const bool gated = is_gated(p.args.epilogue);
  const int n_groups = share.is_cluster ? 1 : p.plan.n_groups;
  const int n_strips = p.plan.n_strips * p.plan.n_blocks;
  const int rows = gated ? kGroupRows / 2 : kGroupRows;
  for (int i = static_cast<int>(threadIdx.x) - kMultiplyWarps * 32; i < n_groups * rows * kTokens;
       i += kFinishWarps * 32) {
    const int row = i % rows, token = i / rows % kTokens, group = i / rows / kTokens;
    const long long out = row_of(p.args, task * p.plan.n_groups + (share.is_cluster ? share.rank : group), row);
    if (token >= p.args.n_tokens || out >= p.args.n_rows) continue;
    const auto sum_of = [&](int of_row) {
      return tree_sum<kStrips>([&](int strip) {
        const int at = (strip * n_groups + group) * kGroupRows + of_row;
        return strip < n_strips ? exchange[place_of_sum<kTiles>(at, token)] : 0.0f;
      });
    };
    finish<__nv_bfloat16>(p.args, token, out, sum_of(row), gated ? sum_of(row + kGroupRows / 2) : 0.0f);
  }
}

/// What the finishing warps do: each task after all have handed over its sums.
template <int kTiles>
__device__ void finish_tasks(const Params& p, const Share& share, const float* exchange, Barriers& barriers) {
  int turn = 0;
  for (long long task = share.cluster; task < p.n_tasks; task += share.n_clusters, ++turn) {
    barriers.full[turn % 2].wait(turn / 2 % 2);
    finish_task<kTiles>(p, share, task, exchange + turn % 2 * exchange_floats(kTiles));
    asm volatile("bar.sync 1, %0;" ::"n"(kFinishWarps * 32) : "memory");
    const int block = static_cast<int>(threadIdx.x) - kMultiplyWarps * 32;
    if (block >= p.plan.n_blocks) continue;
    share.is_cluster ? barriers.read[share.rank][turn % 2].arrive_in(block) : barriers.read[0][turn % 2].arrive();
  }
}

// A cluster takes tasks cluster, + n_clusters, ...
template <int kTiles>
__global__ void __launch_bounds__(kManyThreads, 1) project_many_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Barriers barriers;
  const Share share(p.plan);
  const int warp = threadIdx.x / 32;
  auto* exchange = reinterpret_cast<float*>(shared + ring_bytes(kTiles));
  char* input = reinterpret_cast<char*>(exchange + 2 * exchange_floats(kTiles));
  const Meeting meeting(p.plan.n_blocks);
  if (threadIdx.x == 0) barriers.expect(p.plan.n_blocks);
  let_next_start();
  char* ring = shared + warp % kMultiplyWarps * stages(kTiles) * kRequestBytes;
  Fetcher<stages(kTiles)> fetcher(p, share, ring);
  if (warp < kMultiplyWarps)
    for (int i = 0; i < stages(kTiles) - 1; ++i) fetcher.next();
  wait_for_previous();
  load_inputs<kTiles>(p, share, input);
  meeting.arrive();
  meeting.wait();  // all inputs and barriers are there
  if (warp < kMultiplyWarps)
    Multiplier<kTiles>(p, share, ring, input, fetcher).run(exchange, barriers);
  else
    finish_tasks<kTiles>(p, share, exchange, barriers);
  meeting.arrive();
  meeting.wait();  // no block ends while another may write to it
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
  const bool gated = is_gated(args.epilogue);
  const std::int64_t n_out = gated ? args.n_rows / 2 : args.n_rows;
  const int rows_out = (gated ? kGroupRows / 2 : kGroupRows) * p.plan.n_groups;
  p.n_tasks = (n_out + rows_out - 1) / rows_out;
  const auto with = [&](void (*kernel)(Params)) {
    const int most = most_clusters(kernel, p.plan.n_blocks, kManyThreads, p.plan.shared_bytes);
    const auto n_clusters = static_cast<unsigned>(std::clamp<std::int64_t>(p.n_tasks, 1, most));
    launch_dependent_clusters(kernel, dim3(n_clusters), p.plan.n_blocks, kManyThreads, p.plan.shared_bytes, stream, p);
  };
  if (p.plan.token_tiles == 1) return with(project_many_kernel<1>);
  if (p.plan.token_tiles == 2) return with(project_many_kernel<2>);
  with(project_many_kernel<4>);
}

}  // namespace kvscope::kernels::project_many
