#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/decode_split.h"
#include "kernels/cuda/decode_split_mma.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/score_variant.cuh"
#include "kernels/cuda/softmax_state.cuh"
#include "kernels/decode_attention.h"
#include "kernels/slot_cache.h"

// bfloat16 in pages of 16 goes to cuda/decode_split_mma.cuh. Everything else takes two kernels. decode_split_kernel: the
// slots of a KV head are dealt out to n_splits blocks in tiles of kTile; each block runs an online softmax for all query
// heads of the group, so that a key or value is read once. merge_splits_kernel adds the blocks' (m, l, o) up. A short
// cache leaves most blocks without a tile; they return at once.

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kTile = kDecodeTile;
constexpr int kLanesPerKey = 8;  // threads that share one key's dot products
constexpr int kMaxGroup = 8;     // query heads per block; a larger group takes several blocks

struct SplitParams {
  DecodeAttentionArgs args;
  int group_size;  // n_heads / n_kv_heads
  int n_parts;     // blocks (in y) that share a group
  int n_splits;    // gridDim.x is the most that a row has
  float* partial;  // in scratch, after the counters of the other kernel
};

/// Layout of p.partial: [n_heads, n_splits, head_dim + 2]: o (weighted sum), m (base 2), l.
__device__ inline float* partial_result(const SplitParams& p, int head, int split, int head_dim) {
  return p.partial + (static_cast<long long>(head) * p.n_splits + split) * (head_dim + 2);
}

template <typename T, int kHeadDim>
struct SplitShared {
  static constexpr int kChunk = Chunk<T>::kSize;
  static constexpr int kChunks = kHeadDim / kChunk;          // 16-byte chunks of a row
  static constexpr int kRowsAtOnce = kThreads / kChunks;     // values that the block reads together
  static constexpr int kOutThreads = kRowsAtOnce * kChunks;  // the rest idle while values are read

  float q[kMaxGroup][kHeadDim];
  float weight[kMaxGroup][kTile];  // logits, then exp2(logit - m)
  SoftmaxState state[kMaxGroup];
  float correction[kMaxGroup];
  long long offset[kTile];  // of the slot's row in the pools, -1 for a free slot
  float gathered[kRowsAtOnce][kHeadDim];
};

/// Logits of a tile, in base 2: weights are powers of two, which exp2f gives directly. 8 lanes a key, each holding every
/// eighth chunk of it.
template <typename T, int kHeadDim, class Scores>
__device__ __forceinline__ void tile_logits(const SplitParams& p, const Scores& scores, int n_group,
                                            SplitShared<T, kHeadDim>& shared) {
  constexpr int kChunk = Chunk<T>::kSize, kChunks = kHeadDim / kChunk;
  const int thread = threadIdx.x;
  for (int s = thread / kLanesPerKey; s < kTile; s += kThreads / kLanesPerKey) {
    float sum[kMaxGroup] = {};
    for (int c = thread % kLanesPerKey; c < kChunks && shared.offset[s] >= 0; c += kLanesPerKey) {
      const Chunk<T> k = load_chunk(static_cast<const T*>(p.args.cache.k_pool) + shared.offset[s] + c * kChunk);
#pragma unroll
      for (int g = 0; g < kMaxGroup; ++g) {
        if (g >= n_group) break;
#pragma unroll
        for (int e = 0; e < kChunk; ++e) sum[g] += shared.q[g][c * kChunk + e] * to_float(k.element[e]);
      }
    }
#pragma unroll
    for (int g = 0; g < kMaxGroup; ++g) {
      if (g >= n_group) break;
      for (int lane = kLanesPerKey / 2; lane > 0; lane /= 2) sum[g] += __shfl_xor_sync(kFullWarp, sum[g], lane);
      if (thread % kLanesPerKey == 0) shared.weight[g][s] = shared.offset[s] >= 0 ? scores.score(sum[g]) : -INFINITY;
    }
  }
}

/// Logits of a tile become weights: one warp a query head.
template <typename T, int kHeadDim>
__device__ __forceinline__ void tile_softmax(int n_group, SplitShared<T, kHeadDim>& shared) {
  const int lane = threadIdx.x % 32;
  for (int g = threadIdx.x / 32; g < n_group; g += kWarps) {
    const float a = shared.weight[g][lane];
    const float b = shared.weight[g][lane + 32];
    SoftmaxState state = shared.state[g];
    const float correction = state.raise(warp_max(fmaxf(a, b)));
    const float weight_a = state.weight(a);
    const float weight_b = state.weight(b);
    state.l += warp_sum(weight_a + weight_b);
    shared.weight[g][lane] = weight_a;
    shared.weight[g][lane + 32] = weight_b;
    __syncwarp();  // all lanes have read the state
    if (lane == 0) {
      shared.correction[g] = correction;
      shared.state[g] = state;
    }
  }
}

/// o += weights v. Free slots are left out, not weighted 0; what lies in them may be NaN.
template <typename T, int kHeadDim>
__device__ __forceinline__ void add_values(const SplitParams& p, int n_group, const SplitShared<T, kHeadDim>& shared,
                                           float (&o)[kMaxGroup][Chunk<T>::kSize]) {
  constexpr int kChunk = Chunk<T>::kSize, kChunks = kHeadDim / kChunk;
  const int thread = threadIdx.x;
  if (thread >= SplitShared<T, kHeadDim>::kOutThreads) return;
#pragma unroll
  for (int g = 0; g < kMaxGroup; ++g) {
    if (g >= n_group) break;
#pragma unroll
    for (int e = 0; e < kChunk; ++e) o[g][e] *= shared.correction[g];
  }
  for (int s = thread / kChunks; s < kTile; s += SplitShared<T, kHeadDim>::kRowsAtOnce) {
    if (shared.offset[s] < 0) continue;
    const auto* values = static_cast<const T*>(p.args.cache.v_pool);
    const Chunk<T> v = load_chunk(values + shared.offset[s] + thread % kChunks * kChunk);
#pragma unroll
    for (int g = 0; g < kMaxGroup; ++g) {
      if (g >= n_group) break;
#pragma unroll
      for (int e = 0; e < kChunk; ++e) o[g][e] += shared.weight[g][s] * to_float(v.element[e]);
    }
  }
}

/// The rows that different threads summed meet in shared memory, one query head after the other.
template <typename T, int kHeadDim, class Scores>
__device__ __forceinline__ void write_sums(const SplitParams& p, int first_head, int n_group,
                                           const float (&o)[kMaxGroup][Chunk<T>::kSize],
                                           SplitShared<T, kHeadDim>& shared) {
  constexpr int kChunk = Chunk<T>::kSize, kChunks = kHeadDim / kChunk;
  const int thread = threadIdx.x;
#pragma unroll
  for (int g = 0; g < kMaxGroup; ++g) {
    if (g >= n_group) break;
    __syncthreads();
    if (thread < SplitShared<T, kHeadDim>::kOutThreads) {
#pragma unroll
      for (int e = 0; e < kChunk; ++e) shared.gathered[thread / kChunks][thread % kChunks * kChunk + e] = o[g][e];
    }
    __syncthreads();
    for (int d = thread; d < kHeadDim; d += kThreads) {
      float sum = 0;
      for (int row = 0; row < SplitShared<T, kHeadDim>::kRowsAtOnce; ++row) sum += shared.gathered[row][d];
      if (p.n_splits == 1) {
        write_result<T, Scores>(p.args, first_head + g, d, kHeadDim, sum, shared.state[g]);
      } else {
        float* out = partial_result(p, first_head + g, blockIdx.x, kHeadDim);
        out[d] = sum;
        if (d == 0) {
          out[kHeadDim] = shared.state[g].m;
          out[kHeadDim + 1] = shared.state[g].l;
        }
      }
    }
  }
}

// One block per (split, KV head and part of its group, row).
template <typename T, int kHeadDim, class Scores, int kRows>
__global__ void __launch_bounds__(kThreads)
    decode_split_kernel(const __grid_constant__ RowArgs<SplitParams, kRows> rows_of_launch, Scores scores) {
  const SplitParams& p = rows_of_launch.of(blockIdx.z);
  __shared__ SplitShared<T, kHeadDim> shared;
  const SlotCacheView& cache = p.args.cache;
  const int thread = threadIdx.x;
  const int kv_head = blockIdx.y / p.n_parts;
  const int part = blockIdx.y % p.n_parts;
  const int n_group = min(kMaxGroup, p.group_size - part * kMaxGroup);
  const int first_head = kv_head * p.group_size + part * kMaxGroup;
  const int n_slots = cache.n_slots[kv_head];
  const int n_tiles = (n_slots + kTile - 1) / kTile;
  // Split 0 goes on without tiles where it alone answers for the head.
  if (static_cast<int>(blockIdx.x) >= (p.n_splits > 1 ? min(n_tiles, p.n_splits) : 1)) return;

  for (int i = thread; i < kMaxGroup * kHeadDim; i += kThreads) {
    const int g = i / kHeadDim;
    const int d = i % kHeadDim;
    shared.q[g][d] = g < n_group ? to_float(static_cast<const T*>(p.args.q)[(first_head + g) * kHeadDim + d]) : 0.0f;
  }
  if (thread < kMaxGroup) shared.state[thread] = nothing_seen();
  // Of rows thread / kChunks, + kRowsAtOnce, ...; features of chunk thread % kChunks.
  float o[kMaxGroup][Chunk<T>::kSize] = {};

  for (int tile = blockIdx.x; tile < n_tiles; tile += p.n_splits) {
    __syncthreads();  // the last tile's weights and offsets have been used; q is written
    if (thread < kTile) {
      const int slot = tile * kTile + thread;
      const bool taken = slot < n_slots && cache.slot_position[slot_row(cache, kv_head) + slot] >= 0;
      shared.offset[thread] = taken ? slot_offset(cache, kv_head, slot) : -1;
    }
    __syncthreads();
    tile_logits(p, scores, n_group, shared);
    __syncthreads();
    tile_softmax(n_group, shared);
    __syncthreads();
    add_values(p, n_group, shared, o);
  }
  write_sums<T, kHeadDim, Scores>(p, first_head, n_group, o, shared);
}

// One block per query head and row, one thread per feature.
template <typename T, int kHeadDim, class Scores, int kRows>
__global__ void merge_splits_kernel(const __grid_constant__ RowArgs<SplitParams, kRows> rows_of_launch) {
  const SplitParams& p = rows_of_launch.of(blockIdx.y);
  if (p.n_splits == 1) return;  // what it has is written
  const int head = blockIdx.x;
  const int feature = threadIdx.x;
  const int n_tiles = (p.args.cache.n_slots[head / p.group_size] + kTile - 1) / kTile;
  const int n_used = min(p.n_splits, n_tiles);  // the other splits wrote nothing
  const auto state_of = [&](int split) {
    const float* softmax = partial_result(p, head, split, kHeadDim) + kHeadDim;
    return SoftmaxState{softmax[0], softmax[1]};
  };
  SoftmaxState state = nothing_seen();
  for (int split = 0; split < n_used; ++split) state.m = fmaxf(state.m, state_of(split).m);
  float o = 0;
  for (int split = 0; split < n_used; ++split) {
    o += state.add(state_of(split)) * partial_result(p, head, split, kHeadDim)[feature];
  }
  write_result<T, Scores>(p.args, head, feature, kHeadDim, o, state);
}

mma_split::Params mma_params(const DecodeAttentionArgs& args) {
  mma_split::Params p = {.args = args};
  p.group_size = args.n_heads / args.cache.n_kv_heads;
  const int most_heads = mma_split::most_heads(args.cache.head_dim);
  p.n_parts = (p.group_size + most_heads - 1) / most_heads;
  const int n_rows = args.cache.n_kv_heads * p.n_parts;
  // Two blocks a multiprocessor have 200 kB on their way; more of them would only be more to add up. Of the widest heads
  // there is room for one.
  static_assert(mma_split::kBlocksAtOnce<192, 1> >= 2 && mma_split::kBlocksAtOnce<256, 1> == 1);
  const int n_blocks = (args.cache.head_dim > 192 ? 1 : 2) * device_traits().n_multiprocessors;
  const int wanted = (n_blocks + n_rows - 1) / n_rows;
  p.n_splits = args.scratch ? std::min(decode_splits(args.cache.max_pages * args.cache.page_size), wanted) : 1;
  p.counter = reinterpret_cast<unsigned*>(args.scratch);
  p.partial = args.scratch + decode_counter_floats(args.n_heads);
  p.softmax = p.partial + static_cast<std::int64_t>(args.n_heads) * p.n_splits * args.cache.head_dim;
  return p;
}

SplitParams split_params(const DecodeAttentionArgs& args) {
  SplitParams p = {.args = args};
  p.group_size = args.n_heads / args.cache.n_kv_heads;
  p.n_parts = (p.group_size + kMaxGroup - 1) / kMaxGroup;
  p.n_splits = args.scratch ? decode_splits(args.cache.max_pages * args.cache.page_size) : 1;
  p.partial = args.scratch + decode_counter_floats(args.n_heads);
  return p;
}

/// Of rows of one model: blocks for the row with the most splits, the others' leave at once.
template <typename Params, int kRows>
dim3 grid_of(const RowArgs<Params, kRows>& rows, unsigned n) {
  int n_splits = 1;
  for (unsigned i = 0; i < n; ++i) n_splits = std::max(n_splits, rows.row[i].n_splits);
  return dim3(n_splits, rows.row[0].args.cache.n_kv_heads * rows.row[0].n_parts, n);
}

/// The sink logits are a layer's, so all rows have the same scores.
template <typename Params, typename Launch>
void launch_all(std::span<const DecodeAttentionArgs> rows, Params (*params_of)(const DecodeAttentionArgs&),
                const Launch& launch) {
  std::vector<Params> params;
  for (const DecodeAttentionArgs& args : rows) params.push_back(params_of(args));
  const auto one_kind = [](const Params&) { return 0; };
  const DecodeAttentionArgs& first = rows.front();
  dispatch_head_dim("decode_attention", first.cache.head_dim, [&]<int kHeadDim>() {
    dispatch_scores(first.scale, first.variant, [&]<class Scores>(const Scores& scores) {
      launch_rows(std::span<const Params>(params), one_kind,
                  [&](const auto& launched, unsigned n) { launch.template operator()<kHeadDim>(launched, n, scores); });
    });
  });
}

void launch_mma(std::span<const DecodeAttentionArgs> rows, Stream stream) {
  launch_all(rows, mma_params,
             [&]<int kHeadDim, int kRows, class Scores>(const RowArgs<mma_split::Params, kRows>& launched, unsigned n,
                                                        const Scores& scores) {
               const auto launch = [&]<int kEights>() {
                 const unsigned room = mma_split::kBlocksAtOnce<kHeadDim, kEights> * device_traits().n_multiprocessors;
                 const dim3 parts = grid_of(launched, n);
                 launch_dependent(mma_split::decode_split_mma_kernel<kHeadDim, kEights, Scores, kRows>,
                                  kRows > 1 ? mma_split::grid_of_pieces(parts, room) : parts, mma_split::kThreads,
                                  sizeof(mma_split::Shared<kHeadDim>), stream, launched, static_cast<int>(n), scores);
               };
               if constexpr (mma_split::most_heads(kHeadDim) > 8) {
                 if (launched.row[0].group_size > 8) return launch.template operator()<2>();
               }
               launch.template operator()<1>();
             });
}

void launch_plain(std::span<const DecodeAttentionArgs> rows, Stream stream) {
  dispatch_dtype(rows.front().cache.dtype, [&]<typename T>() {
    launch_all(rows, split_params,
               [&]<int kHeadDim, int kRows, class Scores>(const RowArgs<SplitParams, kRows>& launched, unsigned n,
                                                          const Scores& scores) {
                 const dim3 grid = grid_of(launched, n);
                 decode_split_kernel<T, kHeadDim, Scores, kRows><<<grid, kThreads, 0, stream>>>(launched, scores);
                 check_launch();
                 if (grid.x == 1) return;
                 const dim3 heads(launched.row[0].args.n_heads, n);
                 merge_splits_kernel<T, kHeadDim, Scores, kRows><<<heads, kHeadDim, 0, stream>>>(launched);
                 check_launch();
               });
  });
}

}  // namespace

void cuda::decode_attention(std::span<const DecodeAttentionArgs> rows, Stream stream) {
  for (const DecodeAttentionArgs& args : rows) {
    require_alignment("decode_attention", "cache.k_pool", args.cache.k_pool);
    require_alignment("decode_attention", "cache.v_pool", args.cache.v_pool);
  }
  const SlotCacheView& cache = rows.front().cache;  // the model's dtype and geometry, of every row
  if (cache.dtype == DType::bf16 && cache.page_size == mma_split::kSlots) return launch_mma(rows, stream);
  launch_plain(rows, stream);
}

}  // namespace kvscope::kernels
