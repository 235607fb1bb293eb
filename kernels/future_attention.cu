#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/score_variant.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/future_attention.h"

// One block per (64 or 128 keys, query head), which walks over the queries: each mass is summed by one block in a fixed
// order, so there is nothing to add atomically and two runs give the same bits. The product is taken as keys times queries,
// which leaves a key's terms in one row of threads. Most tiles of queries count whole for all keys of a block: these are not
// asked term by term.

namespace kvscope::kernels {
namespace {

struct Params {
  FutureAttentionArgs args;
  int group_size;
};

/// Which keys a block works on, and the rows of q that count for any of them.
struct Block {
  int head, kv_head;
  int first_key, n_keys;
  int first_row, end_row;

  __device__ Block(const Params& p, int n_keys) : n_keys(n_keys) {
    const FutureAttentionArgs& args = p.args;
    head = blockIdx.y;
    kv_head = head / p.group_size;
    first_key = static_cast<int>(blockIdx.x) * n_keys;
    const long long last_key = min(static_cast<long long>(first_key) + n_keys, static_cast<long long>(args.kv_len)) - 1;
    const long long q_len = args.q_len;
    first_row = static_cast<int>(min(q_len, max(0LL, static_cast<long long>(first_key) + args.window - args.q_start)));
    const long long look_end = last_key + args.window + args.look_ahead + 1 - args.q_start;
    end_row = static_cast<int>(args.look_ahead > 0 ? max(0LL, min(q_len, look_end)) : q_len);
  }

  /// Whether each of the kTileRows queries from `row` on counts for each key.
  __device__ bool counts_whole(const Params& p, int row) const {
    const FutureAttentionArgs& args = p.args;
    const long long least = args.q_start + row - (first_key + n_keys - 1) - args.window;
    const long long most = args.q_start + row + kTileRows - 1 - first_key - args.window;
    return row + kTileRows <= end_row && first_key + n_keys <= args.kv_len && least >= 0 &&
           (args.look_ahead == 0 || most <= args.look_ahead);
  }

  /// exp(score - lse) if query row `row` counts for key `t`, else 0. lse2 is lse * log2(e).
  template <class Scores>
  __device__ float term(const Params& p, const Scores& scores, int row, int t, float dot, float lse2) const {
    const FutureAttentionArgs& args = p.args;
    const long long distance = args.q_start + row - t - args.window;
    const bool counts =
        row < end_row && t < args.kv_len && distance >= 0 && (args.look_ahead == 0 || distance <= args.look_ahead);
    return counts ? fast_exp2(scores.exponent(dot, lse2)) : 0.0f;
  }
};

/// lse of the query tile, in base 2. 0 past the end, where no term counts.
__device__ void load_lse(const Params& p, const Block& block, int row, float* shared) {
  if (threadIdx.x >= kTileRows) return;
  const int mine = row + threadIdx.x;
  shared[threadIdx.x] = mine < block.end_row ? p.args.lse[block.head * p.args.q_len + mine] * kLog2E : 0.0f;
}

/// What the queries of a block gave to one key. Squares and maximum cost two operations a term beside its exponential
/// and are always taken; only where they are wanted they are stored.
struct Terms {
  float sum = 0, square = 0, most = 0;
  __device__ void add(float term) {
    sum += term;
    square = fmaf(term, term, square);
    most = fmaxf(most, term);
  }
  /// With those of the lane `offset` away.
  __device__ void join(int offset) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    square += __shfl_xor_sync(0xffffffffu, square, offset);
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
  }
};

__device__ void add_mass(const Params& p, const Block& block, int key, const Terms& terms) {
  if (key >= p.args.kv_len) return;
  const long long at = block.head * p.args.mass_stride + key;
  p.args.mass[at] += terms.sum;
  if (p.args.square == nullptr) return;
  p.args.square[at] += terms.square;
  p.args.most[at] = fmaxf(p.args.most[at], terms.most);
}

template <int kHeadDim>
constexpr int kSharedBytesF32 = sizeof(float) * (2 * kTileElements<float, kHeadDim> + kTileRows);

template <int kHeadDim, class Scores>
__global__ void __launch_bounds__(kThreadsF32) future_attention_f32_kernel(Params p, Scores scores) {
  constexpr int kStride = kTileStride<float, kHeadDim>;
  extern __shared__ __align__(16) char shared[];
  float* k = reinterpret_cast<float*>(shared);  // [kTileRows, kStride]
  float* q = k + kTileElements<float, kHeadDim>;
  float* lse = q + kTileElements<float, kHeadDim>;

  const Block block(p, kTileRows);
  const FutureAttentionArgs& args = p.args;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
  load_tile<kTileRows, kHeadDim, kStride>(k, static_cast<const float*>(args.k), block.first_key,
                                          static_cast<int>(args.kv_len), block.kv_head, args.n_kv_heads);
  Terms terms[4];  // of keys ty + 16 i
  for (int row = block.first_row; row < block.end_row; row += kTileRows) {
    __syncthreads();  // the last tile of queries has been used
    load_tile<kTileRows, kHeadDim, kStride>(q, static_cast<const float*>(args.q), row, block.end_row, block.head,
                                            args.n_heads);
    load_lse(p, block, row, lse);
    __syncthreads();
    float s[4][4];
    tile_product<kHeadDim>(k, q, s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = tx + 16 * j;
        terms[i].add(block.term(p, scores, row + column, block.first_key + ty + 16 * i, s[i][j], lse[column]));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    for (int lane = 8; lane > 0; lane /= 2) terms[i].join(lane);
    if (tx == 0) add_mass(p, block, block.first_key + ty + 16 * i, terms[i]);
  }
}

constexpr int kKeysBf16 = 2 * kTileRows;

/// Two tiles of queries, and what they are normed by. The keys lie there too until they are in registers.
template <int kHeadDim>
struct QueryStages {
  __nv_bfloat16 q[2][kTileElements<__nv_bfloat16, kHeadDim>];
  float lse[2][kTileRows];
};

/// Asks for the tile of queries from `row` on.
template <int kHeadDim>
__device__ void fetch_queries(const Params& p, const Block& block, int row, __nv_bfloat16* to) {
  constexpr int kChunks = kHeadDim / 8, kStride = kTileStride<__nv_bfloat16, kHeadDim>;
  const auto* q = static_cast<const __nv_bfloat16*>(p.args.q);
  for (int i = threadIdx.x; i < kTileRows * kChunks; i += kThreadsBf16) {
    const int of_tile = i / kChunks, column = i % kChunks * 8;
    const bool wanted = row + of_tile < block.end_row;
    const long long from = (static_cast<long long>(row + of_tile) * p.args.n_heads + block.head) * kHeadDim + column;
    copy_16_async(to + of_tile * kStride + column, q + (wanted ? from : 0), wanted);
  }
  end_copy_group();
}

// Each warp has 16 keys of either half of the block's 128, so that a query that is read once serves both.
template <int kHeadDim, class Scores>
__global__ void __launch_bounds__(kThreadsBf16, kHeadDim <= 128 ? 3 : 1)
    future_attention_bf16_kernel(Params p, Scores scores) {
  using T = __nv_bfloat16;
  constexpr int kStride = kTileStride<T, kHeadDim>;
  extern __shared__ __align__(16) char shared[];
  auto& stages = *reinterpret_cast<QueryStages<kHeadDim>*>(shared);

  const Block block(p, kKeysBf16);
  const FutureAttentionArgs& args = p.args;
  const int lane = threadIdx.x % 32;
  const int my_key = block.first_key + threadIdx.x / 32 * 16 + lane / 4;  // and + 8, of the first half
  const int pair = lane % 4 * 2;
  RowFragments<kHeadDim> k_rows[2];
  for (int half = 0; half < 2; ++half) {
    load_tile<kTileRows, kHeadDim, kStride>(stages.q[half], static_cast<const T*>(args.k),
                                            block.first_key + half * kTileRows, static_cast<int>(args.kv_len),
                                            block.kv_head, args.n_kv_heads);
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) k_rows[half].load(stages.q[half]);
  __syncthreads();

  Terms terms[2][2];
  int stage = 0;
  if (block.first_row < block.end_row) fetch_queries<kHeadDim>(p, block, block.first_row, stages.q[0]);
  load_lse(p, block, block.first_row, stages.lse[0]);
  for (int row = block.first_row; row < block.end_row; row += kTileRows, stage ^= 1) {
    if (row + kTileRows < block.end_row) {
      fetch_queries<kHeadDim>(p, block, row + kTileRows, stages.q[stage ^ 1]);
      load_lse(p, block, row + kTileRows, stages.lse[stage ^ 1]);
      wait_copy_groups<1>();
    } else {
      wait_copy_groups<0>();
    }
    __syncthreads();
    float s[2][8][4];
    tile_products<kHeadDim>(k_rows, stages.q[stage], s);
    const float* lse = stages.lse[stage];
    const auto add_terms = [&](auto term) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + pair + i % 2;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            terms[half][i / 2].add(term(s[half][n][i], my_key + half * kTileRows + i / 2 * 8, column));
          }
        }
      }
    };
    if (block.counts_whole(p, row)) {
      add_terms([&](float dot, int, int column) { return fast_exp2(scores.exponent(dot, lse[column])); });
    } else {
      add_terms(
          [&](float dot, int key, int column) { return block.term(p, scores, row + column, key, dot, lse[column]); });
    }
    __syncthreads();  // this tile has been used
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      terms[half][i].join(1);
      terms[half][i].join(2);
      if (pair == 0) add_mass(p, block, my_key + half * kTileRows + 8 * i, terms[half][i]);
    }
  }
}

}  // namespace

void cuda::future_attention(const FutureAttentionArgs& args, Stream stream) {
  require_alignment("future_attention", "q", args.q);
  require_alignment("future_attention", "k", args.k);
  const Params p = {args, args.n_heads / args.n_kv_heads};
  const int n_keys = args.dtype == DType::f32 ? kTileRows : kKeysBf16;
  const dim3 grid(static_cast<unsigned>((args.kv_len + n_keys - 1) / n_keys), args.n_heads);
  dispatch_head_dim("future_attention", args.head_dim, [&]<int kHeadDim>() {
    dispatch_soft_cap(args.scale, args.soft_cap, kLog2E, [&]<class Scores>(const Scores& scores) {
      if (args.dtype == DType::f32) {
        launch_shared(future_attention_f32_kernel<kHeadDim, Scores>, grid, kThreadsF32, kSharedBytesF32<kHeadDim>,
                      stream, p, scores);
      } else {
        launch_shared(future_attention_bf16_kernel<kHeadDim, Scores>, grid, kThreadsBf16, sizeof(QueryStages<kHeadDim>),
                      stream, p, scores);
      }
    });
  });
}

}  // namespace kvscope::kernels
