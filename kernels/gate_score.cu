#include <cooperative_groups.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_rotate.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/gate_score.h"
#include "kernels/rule/counter_random.h"

// The weights of a head (WG-KV of Llama: 512 x 256 floats) would keep one multiprocessor busy for 4 to 5 us at 64 bytes
// a clock, so that a head is a cluster of four blocks where the device has clusters: each takes a share of the hidden
// rows, and the first adds the shares up, in their order. What is constant is asked for before the kernel before ends.

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 4;  // of W1 that a warp asks for at a time
constexpr int kClusterBlocks = 4;
constexpr int kLeastClusterHidden = 64;  // below, one block has every row in flight at once

/// k [kHeadDim] <- k / sqrt(mean(k^2) + eps) * weight, by one warp.
template <int kHeadDim>
__device__ void rms_in_place(float* k, const float* weight, float eps) {
  float squares = 0;
  for (int i = threadIdx.x % 32; i < kHeadDim; i += 32) squares += k[i] * k[i];
  const float inverse = rsqrtf(warp_sum(squares) / kHeadDim + eps);
  for (int i = threadIdx.x % 32; i < kHeadDim; i += 32) k[i] *= inverse * weight[i];
  __syncwarp();
}

/// x [2 kHeadDim] of a key source: the first warp sees to the key, the second to the value.
template <typename T, int kHeadDim>
__device__ void fill_inputs(const GateScoreArgs& args, int head, float* x) {
  const auto* qkv = static_cast<const T*>(args.qkv);
  const T* key = qkv + static_cast<long long>(args.n_heads + head) * kHeadDim;
  const T* value = key + static_cast<long long>(args.n_kv_heads) * kHeadDim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool is_pair = args.source == GateSource::key_pair;
  if (warp == 0) {
    float* after = is_pair ? x + kHeadDim : x;
    norm_row<T, kHeadDim>(key, static_cast<const T*>(args.k_norm), args.eps, args.norm_offset, after);
    for (int i = lane; i < kHeadDim && is_pair; i += 32) x[i] = after[i];
    __syncwarp();  // the rotation moves what other lanes still copy
    rotate_row<T, kHeadDim>(after, args.inv_freq, static_cast<float>(*args.position), args.attention_scaling);
    if (is_pair) {
      rms_in_place<kHeadDim>(x, args.pre_weight, args.gate_eps);
      rms_in_place<kHeadDim>(after, args.post_weight, args.gate_eps);
    }
  }
  if (warp == 1 && !is_pair) {
    for (int i = lane; i < kHeadDim; i += 32) x[kHeadDim + i] = to_float(value[i]);
  }
}

__device__ inline float activated(GateActivation activation, float x) {
  if (activation == GateActivation::silu) return silu(x);
  return activation == GateActivation::gelu ? gelu(x) : x;
}

/// A lane's columns of a row of 2 kHeadDim numbers: 16 bytes at lane, lane + 32, ...
template <int kHeadDim>
struct LaneRow {
  static constexpr int kChunks = kHeadDim / 2;  // of four numbers, in the row
  static constexpr int kPerLane = (kChunks + 31) / 32;
  float4 chunk[kPerLane];

  /// Zeros where there is no row.
  __device__ void load(const float* row, bool is_there) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int at = threadIdx.x % 32 + i * 32;
      chunk[i] = is_there && at < kChunks ? reinterpret_cast<const float4*>(row)[at] : float4{0, 0, 0, 0};
    }
  }
  /// The product of the two rows, in every lane.
  __device__ float dot(const LaneRow& other) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      sum += chunk[i].x * other.chunk[i].x + chunk[i].y * other.chunk[i].y + chunk[i].z * other.chunk[i].z +
             chunk[i].w * other.chunk[i].w;
    }
    return warp_sum(sum);
  }
};

/// The hidden rows of one block.
struct Share {
  int first, end;
};
__device__ inline Share share_of(int n_hidden, int block, int n_blocks) {
  const int size = (n_hidden + n_blocks - 1) / n_blocks;
  return {min(block * size, n_hidden), min((block + 1) * size, n_hidden)};
}

/// Brings what the block will read of the weights into the second-level cache.
template <int kHeadDim>
__device__ void prefetch_weights(const GateScoreArgs& args, int head, Share share) {
  const auto prefetch = [&](const float* data, int n) {
    for (int i = threadIdx.x * 32; data && i < n; i += kThreads * 32) prefetch_to_l2(data + i);
  };
  constexpr int kInputs = 2 * kHeadDim;
  prefetch(args.pre_weight, kHeadDim);
  prefetch(args.post_weight, kHeadDim);
  if (args.n_hidden == 0) return prefetch(args.w2 + static_cast<long long>(head) * kInputs, kInputs);
  const long long first = static_cast<long long>(head) * args.n_hidden + share.first;
  const int n = share.end - share.first;
  prefetch(args.w1 + first * kInputs, n * kInputs);
  prefetch(args.w2 + first, n);
  prefetch(args.b1 ? args.b1 + first : nullptr, n);
}

/// Sum over this warp's hidden rows of w2 act(W1 x + b1); without hidden rows w2 . x, in the first warp.
template <int kHeadDim>
__device__ float sum_of_warp(const GateScoreArgs& args, int head, Share share, const float* shared_x) {
  constexpr int kInputs = 2 * kHeadDim;
  const int warp = threadIdx.x / 32;
  LaneRow<kHeadDim> x, w[kRows];
  x.load(shared_x, true);
  if (args.n_hidden == 0) {
    w[0].load(args.w2 + static_cast<long long>(head) * kInputs, warp == 0);
    return w[0].dot(x);
  }
  const long long first = static_cast<long long>(head) * args.n_hidden;
  float sum = 0;
  for (int row = share.first + warp * kRows; row < share.end; row += kWarps * kRows) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int at = min(row + i, share.end - 1);
      w[i].load(args.w1 + (first + at) * kInputs, row + i < share.end);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float product = w[i].dot(x);
      if (row + i >= share.end) continue;
      const long long at = first + row + i;
      sum += args.w2[at] * activated(args.activation, product + (args.b1 ? args.b1[at] : 0.0f));
    }
  }
  return sum;
}

/// The sum of `part` over the blocks of a cluster, in their order; known to the first thread of the first one. All
/// threads take part.
template <int kBlocks>
__device__ float cluster_sum(float* part) {
  float sum = *part;
#if __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
      for (int block = 1; block < kBlocks; ++block) sum += *cluster.map_shared_rank(part, block);
    }
    cluster.sync();  // shared memory must not go before it has been read
  }
#endif
  return sum;
}

__device__ inline void finish(const GateScoreArgs& args, int head, float score) {
  const float y = args.scale * score + args.offset;
  args.out[head] = args.sigmoid ? sigmoid(y) : y;
}

// kBlocks blocks a row and KV head, one cluster.
template <typename T, int kHeadDim, int kBlocks, int kRows>
__global__ void __launch_bounds__(kThreads)
    gate_score_kernel(const __grid_constant__ RowArgs<GateScoreArgs, kRows> rows_of_launch) {
  const GateScoreArgs& args = rows_of_launch.of(blockIdx.y);
  __shared__ __align__(16) float x[2 * kHeadDim];
  __shared__ float sums[kWarps];
  __shared__ float part;
  const int head = blockIdx.x / kBlocks, block = blockIdx.x % kBlocks;
  const Share share = share_of(args.n_hidden, block, kBlocks);
  let_next_start();
  prefetch_weights<kHeadDim>(args, head, share);
  wait_for_previous();
  fill_inputs<T, kHeadDim>(args, head, x);
  __syncthreads();
  const float of_warp = sum_of_warp<kHeadDim>(args, head, share, x);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x == 0) {
    part = 0;
    for (int warp = 0; warp < kWarps; ++warp) part += sums[warp];
  }
  __syncthreads();
  const float score = cluster_sum<kBlocks>(&part);
  if (block == 0 && threadIdx.x == 0) finish(args, head, score + (args.b2 ? args.b2[head] : 0.0f));
}

/// Of a rotated key in `row`, by one warp; the score is right in every lane.
template <int kHeadDim>
__device__ float score_of_key(const GateScoreArgs& args, int head, const float* row) {
  const int lane = threadIdx.x % 32;
  float square = 0;
  for (int i = lane; i < kHeadDim; i += 32) square += row[i] * row[i];
  square = warp_sum(square);
  if (args.source == GateSource::key_norm) return key_score(args.source, square, 0, 0);
  const float inverse = 1 / fmaxf(sqrtf(square), 1e-12f);
  float* anchor = args.anchor + static_cast<long long>(head) * kHeadDim;
  float product = 0, anchor_square = 0;
  for (int i = lane; i < kHeadDim; i += 32) {
    const float sum = anchor[i] + row[i] * inverse;
    anchor[i] = sum;
    product += row[i] * sum;
    anchor_square += sum * sum;
  }
  return key_score(args.source, square, warp_sum(product), warp_sum(anchor_square));
}

// One warp a row and KV head, for scores that need no weights.
template <typename T, int kHeadDim, int kRows>
__global__ void plain_score_kernel(const __grid_constant__ RowArgs<GateScoreArgs, kRows> rows_of_launch) {
  const GateScoreArgs& args = rows_of_launch.of(blockIdx.y);
  __shared__ float row[kHeadDim];
  const int head = blockIdx.x;
  let_next_start();
  wait_for_previous();
  if (args.source == GateSource::table) {
    if (threadIdx.x == 0) finish(args, head, table_score(args, head, *args.position));
    return;
  }
  if (args.source == GateSource::random) {
    if (threadIdx.x == 0) finish(args, head, counter_uniform(args.seed, args.layer, head, *args.position));
    return;
  }
  if (is_of_key(args.source)) {
    const T* key = static_cast<const T*>(args.qkv) + static_cast<long long>(args.n_heads + head) * kHeadDim;
    norm_row<T, kHeadDim>(key, static_cast<const T*>(args.k_norm), args.eps, args.norm_offset, row);
    rotate_row<T, kHeadDim>(row, args.inv_freq, static_cast<float>(*args.position), args.attention_scaling);
    const float score = score_of_key<kHeadDim>(args, head, row);
    if (threadIdx.x == 0) finish(args, head, score);
    return;
  }
  const long long query = static_cast<long long>(head) * (args.n_heads / args.n_kv_heads) * kHeadDim;
  norm_row<T, kHeadDim>(static_cast<const T*>(args.qkv) + query, static_cast<const T*>(args.q_norm), args.eps,
                        args.norm_offset, row);
  if (threadIdx.x == 0) finish(args, head, row[kHeadDim - 1]);
}

enum class Launch : std::uint8_t { plain, one_block, cluster };

Launch launch_of(const GateScoreArgs& args) {
  if (!has_weights(args.source)) return Launch::plain;
  const bool has_clusters = args.n_hidden >= kLeastClusterHidden && device_traits().has_dependent_launch;
  return has_clusters ? Launch::cluster : Launch::one_block;
}

template <typename T, int kHeadDim, int kRows>
void launch(const RowArgs<GateScoreArgs, kRows>& rows, unsigned n, Stream stream) {
  const dim3 grid(rows.row[0].n_kv_heads, n);
  switch (launch_of(rows.row[0])) {
    case Launch::plain:
      return launch_dependent(plain_score_kernel<T, kHeadDim, kRows>, grid, 32, 0, stream, rows);
    case Launch::one_block:
      return launch_dependent(gate_score_kernel<T, kHeadDim, 1, kRows>, grid, kThreads, 0, stream, rows);
    case Launch::cluster:
      return launch_dependent_clusters(gate_score_kernel<T, kHeadDim, kClusterBlocks, kRows>, grid, kClusterBlocks,
                                       kThreads, 0, stream, rows);
  }
}

}  // namespace

void cuda::gate_score(std::span<const GateScoreArgs> rows, Stream stream) {
  for (const GateScoreArgs& args : rows) {
    if (!has_weights(args.source)) continue;
    const bool is_linear = args.n_hidden == 0;
    require_alignment("gate_score", is_linear ? "w2" : "w1", is_linear ? args.w2 : args.w1);
  }
  dispatch_dtype(rows.front().dtype, [&]<typename T>() {
    dispatch_head_dim("gate_score", rows.front().head_dim, [&]<int kHeadDim>() {
      launch_rows(rows, launch_of, [&](const auto& launched, unsigned n) { launch<T, kHeadDim>(launched, n, stream); });
    });
  });
}

}  // namespace kvscope::kernels
