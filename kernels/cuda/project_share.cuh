#pragma once
// How a product of many tokens (project_many.cuh) is shared out to the blocks of a cluster and their warps, and how its
// weights and inputs come into shared memory.

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/project_parts.cuh"

namespace kvscope::kernels::project_many {

using namespace project_parts;

constexpr int kMultiplyWarps = 8, kFinishWarps = 4;
constexpr int kManyThreads = (kMultiplyWarps + kFinishWarps) * 32;
constexpr int kLanes = kWarps;       // of project.cu
constexpr int kStrips = kLanes / 2;  // at most
constexpr int kGroupRows = 16;       // rows of weights of a warp's task
constexpr int kRequestColumns = 64;  // whole lines of 128 bytes
constexpr int kRequestBytes = kGroupRows * kRequestColumns * 2;
constexpr int kMostBlocks = 8;  // of a cluster
constexpr std::size_t kMaxSharedBytes = 226 * 1024;

/// Requests of a warp in shared memory.
__host__ __device__ constexpr int stages(int token_tiles) { return token_tiles == 4 ? 4 : 5; }

/// How a product is shared out.
struct Plan {
  int n_blocks = 0;     // of a cluster: 1, 2, 4, 8
  int n_strips = 0;     // of a block: a power of two
  int n_groups = 0;     // of 16 rows, that a block works on at once: a warp has a strip and a group
  int n_turns = 0;      // units of a lane
  int token_tiles = 0;  // of eight tokens: 1, 2, 4
  std::size_t shared_bytes = 0;
};

/// Of the sums of one task.
__host__ __device__ constexpr int exchange_floats(int token_tiles) {
  return kMultiplyWarps * kGroupRows * 8 * token_tiles;
}
__host__ __device__ constexpr int ring_bytes(int token_tiles) {
  return kMultiplyWarps * stages(token_tiles) * kRequestBytes;
}
constexpr std::size_t unit_bytes(int token_tiles) { return std::size_t{kUnitColumns} * 2 * 8 * token_tiles; }

/// n_blocks is 0 if that many tokens do not fit.
inline Plan plan_of(int dim, int n_tokens) {
  const int token_tiles = n_tokens <= 8 ? 1 : n_tokens <= 16 ? 2 : 4;
  const int n_units = (dim + kUnitColumns - 1) / kUnitColumns;
  int strips = 1;  // that have a unit
  while (strips < kStrips && 2 * strips < n_units) strips *= 2;
  Plan plan = {.n_turns = (n_units + kLanes - 1) / kLanes, .token_tiles = token_tiles};
  for (int n_blocks = 1; n_blocks <= (strips == kStrips ? kMostBlocks : 1); n_blocks *= 2) {
    const int n_strips = strips / n_blocks;
    const std::size_t bytes = ring_bytes(token_tiles) + 2 * exchange_floats(token_tiles) * sizeof(float) +
                              2 * n_strips * plan.n_turns * unit_bytes(token_tiles);
    if (bytes > kMaxSharedBytes) continue;
    plan.n_blocks = n_blocks;
    plan.n_strips = n_strips;
    plan.n_groups = kMultiplyWarps / n_strips;
    plan.shared_bytes = bytes;
    return plan;
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
  if (!is_gated(args.epilogue)) return group * kGroupRows + i;
  const long long half = args.n_rows / 2;
  const long long row = group * (kGroupRows / 2) + i % (kGroupRows / 2);
  if (row >= half) return args.n_rows;
  return i < kGroupRows / 2 ? row : half + row;
}

/// Where the 16 bytes at `chunk` of a row of `row_bytes` lie. Odd rows are turned by half a line: two rows read side by side
/// then fall into different banks.
__device__ inline int place(int row, int row_bytes, int chunk) {
  return row * row_bytes + (chunk ^ (row % 2 * 4)) * 16;
}

/// Where this block is in its cluster, and what this warp has of a task.
struct Share {
  int rank, strip, group;  // strip: of the block; group: of rows in a task
  int cluster, n_clusters;
  bool is_cluster;

  __device__ explicit Share(const Plan& plan)
      : rank(static_cast<int>(blockIdx.x) % plan.n_blocks),
        strip(static_cast<int>(threadIdx.x) / 32 % plan.n_strips),
        group(static_cast<int>(threadIdx.x) / 32 / plan.n_strips),
        cluster(static_cast<int>(blockIdx.x) / plan.n_blocks),
        n_clusters(static_cast<int>(gridDim.x) / plan.n_blocks),
        is_cluster(plan.n_blocks > 1) {}

  /// The first column of lane 0 or 1 of this warp's strip.
  __device__ int first_column(const Plan& plan, int lane) const {
    return (2 * (rank * plan.n_strips + strip) + lane) * kUnitColumns;
  }
};

/// What one warp asks for: the rows of its group in each of the cluster's tasks, half a unit at a time. Counted on, never
/// divided.
template <int kStages>
class Fetcher {
 public:
  __device__ Fetcher(const Params& p, const Share& share, char* ring)
      : p_(p), share_(share), ring_(ring), task_(share.cluster), column_(share.first_column(p.plan, 0)) {
    begin_task();
    skip_empty_lane();
  }

  __device__ void next() {
    if (task_ < p_.n_tasks) {
      char* stage = ring_ + stage_ * kRequestBytes;
      const int row = threadIdx.x % 32 / 8, chunk = threadIdx.x % 8;
      const int column = column_ + half_ * kRequestColumns + chunk * 8;
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) {
        const bool wanted = has_row_[i] && column < p_.args.dim;
        copy_16_async(stage + place(row + 4 * i, kRequestColumns * 2, chunk), row_[i] + (wanted ? column : 0), wanted);
      }
      half_ ^= 1;
      if (half_ == 0) {
        column_ += kLanes * kUnitColumns;
        skip_empty_lane();
      }
    }
    end_copy_group();  // empty at the end, so that the count of groups stays right
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

 private:
  static constexpr int kRowsOfThread = kGroupRows / 4;

  /// Goes on to the next lane, then to the next task, where this lane has no column left.
  __device__ void skip_empty_lane() {
    while (column_ >= p_.args.dim && task_ < p_.n_tasks) {
      lane_ ^= 1;
      column_ = share_.first_column(p_.plan, lane_);
      if (lane_ == 1) continue;
      if (column_ >= p_.args.dim) {  // this warp has nothing in any task
        task_ = p_.n_tasks;
        return;
      }
      task_ += share_.n_clusters;
      begin_task();
    }
  }

  __device__ void begin_task() {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const long long row =
          row_of(p_.args, task_ * p_.plan.n_groups + share_.group, static_cast<int>(threadIdx.x) % 32 / 8 + 4 * i);
      has_row_[i] = row < p_.args.n_rows;
      row_[i] = static_cast<const __nv_bfloat16*>(p_.args.weight) + (has_row_[i] ? row * p_.args.dim : 0);
    }
  }

  const Params& p_;
  const Share& share_;
  char* ring_;
  long long task_;
  const __nv_bfloat16* row_[kRowsOfThread];
  bool has_row_[kRowsOfThread];
  int column_;  // the first of its unit
  int lane_ = 0, half_ = 0, stage_ = 0;
};

/// This block's inputs in shared memory: of each unit of its lanes the tokens, 256 bytes each; zeros where there are none.
template <int kTiles>
__device__ void load_inputs(const Params& p, const Share& share, char* input) {
  constexpr int kTokens = 8 * kTiles, kChunks = kUnitColumns / 8;
  const auto* x = static_cast<const __nv_bfloat16*>(p.args.x);
  const int n_lanes = 2 * p.plan.n_strips;
  const int n = n_lanes * p.plan.n_turns * kTokens * kChunks;
  for (int i = threadIdx.x; i < n; i += kManyThreads) {
    const int chunk = i % kChunks, token = i / kChunks % kTokens, unit = i / kChunks / kTokens;
    const int lane = share.rank * n_lanes + unit % n_lanes;
    const int column = (unit / n_lanes * kLanes + lane) * kUnitColumns + chunk * 8;
    const bool wanted = token < p.args.n_tokens && column < p.args.dim;
    copy_16_async(input + place(unit * kTokens + token, kUnitColumns * 2, chunk),
                  x + (wanted ? static_cast<long long>(token) * p.args.dim + column : 0), wanted);
  }
  end_copy_group();
  wait_copy_groups<0>();
}

}  // namespace kvscope::kernels::project_many
