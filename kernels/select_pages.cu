#include <algorithm>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/select_pages.h"
#include "kernels/slot_cache.h"

// Two kernels. rank_pages_kernel deals the pages out to many blocks. choose_pages_kernel, one block a KV head, finds
// the rank of the last page that is read bit by bit, counting how many pages are above, and writes the pages down in
// their order.

namespace kvscope::kernels {
namespace {

constexpr int kRankThreads = 128;
constexpr int kRankPages = 4;     // of a warp at a time, so that their bounds are on their way together
constexpr int kMaxBlocks = 128;   // of a KV head; then warps take several turns
constexpr int kMaxPages = 32768;  // what 1024 threads hold in 32 registers each; counts of them fit into 16 bits

/// Position of the newest token of a page, -1 if there is none; known to all lanes of the warp.
__device__ inline int newest_in_page(const SlotCacheView& cache, int head, int n_slots, int page) {
  int newest = -1;
  for (int i = threadIdx.x % 32; i < cache.page_size; i += 32) {
    const int slot = page * cache.page_size + i;
    if (slot < n_slots) newest = max(newest, cache.slot_position[slot_row(cache, head) + slot]);
  }
  return __reduce_max_sync(kFullWarp, newest);
}

// A warp takes kRankPages pages of a KV head (blockIdx.y); lane l has channels l, l + 32, ..., as page_score() does.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kRankThreads) rank_pages_kernel(SelectPagesArgs args) {
  constexpr int kWarps = kRankThreads / 32;
  constexpr int kPerLane = (kHeadDim + 31) / 32;
  let_next_start();
  wait_for_previous();
  const SlotCacheView& cache = args.cache;
  const int head = blockIdx.y, lane = threadIdx.x % 32;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const int n_slots = cache.n_slots[head];
  const int position = *args.position;
  const long long page_row = static_cast<long long>(head) * cache.max_pages;
  const int step = gridDim.x * kWarps * kRankPages;
  for (int first = (blockIdx.x * kWarps + threadIdx.x / 32) * kRankPages; first * cache.page_size < n_slots;
       first += step) {
    int newest[kRankPages];
    float low[kRankPages][kPerLane] = {}, high[kRankPages][kPerLane] = {};
#pragma unroll
    for (int p = 0; p < kRankPages; ++p) newest[p] = newest_in_page(cache, head, n_slots, first + p);
#pragma unroll
    for (int p = 0; p < kRankPages; ++p) {
      if (newest[p] < 0) continue;  // no bounds there
      const T* bounds = static_cast<const T*>(args.bounds) + (page_row + first + p) * 2 * kHeadDim;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int channel = lane + 32 * i;
        if (channel >= kHeadDim) break;
        low[p][i] = to_float(bounds[channel]);
        high[p][i] = to_float(bounds[kHeadDim + channel]);
      }
    }
    PageRank rank[kRankPages] = {};
    for (int g = 0; g < group_size; ++g) {
      const T* q = static_cast<const T*>(args.q) + static_cast<long long>(head * group_size + g) * kHeadDim;
      float sum[kRankPages] = {};
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int channel = lane + 32 * i;
        if (channel >= kHeadDim) break;
        const float x = to_float(q[channel]);
#pragma unroll
        for (int p = 0; p < kRankPages; ++p) sum[p] += page_term(x, low[p][i], high[p][i]);
      }
#pragma unroll
      for (int p = 0; p < kRankPages; ++p) rank[p] = max(rank[p], rank_of_score(warp_sum(sum[p])));
    }
#pragma unroll
    for (int p = 0; p < kRankPages; ++p) {
      if (lane != 0 || (first + p) * cache.page_size >= n_slots) continue;
      if (newest[p] < 0) rank[p] = kNoTokens;
      if (newest[p] >= 0 && newest[p] > position - args.read_window) rank[p] = rank_of_age(position - newest[p]);
      args.rank[page_row + first + p] = rank[p];
    }
  }
}

/// Two numbers below 65536 in one, so that one sum adds both up.
__device__ inline unsigned pair_of(unsigned low, unsigned high) { return low | high << 16; }
__device__ inline unsigned low_of(unsigned pair) { return pair & 0xffffu; }
__device__ inline unsigned high_of(unsigned pair) { return pair >> 16; }

/// Sums over a block, known to every thread. The two halves of `of_warp` take turns, so that one barrier is enough.
template <int kThreads>
class BlockCount {
 public:
  static constexpr int kWarps = kThreads / 32;
  __device__ explicit BlockCount(unsigned (&of_warp)[2][kWarps]) : of_warp_(of_warp) {}

  __device__ unsigned sum(unsigned x) { return sum_and_before(x, nullptr); }

  /// Also the sum over the threads before this one, if `before` is given.
  __device__ unsigned sum_and_before(unsigned x, unsigned* before) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    turn_ ^= 1;
    const unsigned in_warp = __reduce_add_sync(kFullWarp, x);
    if (lane == 0) of_warp_[turn_][warp] = in_warp;
    __syncthreads();
    const unsigned of_lane = lane < kWarps ? of_warp_[turn_][lane] : 0;
    if (before) {
      unsigned through = x;  // of this lane and those before
      for (int offset = 1; offset < 32; offset *= 2) {
        const unsigned other = __shfl_up_sync(kFullWarp, through, offset);
        if (lane >= offset) through += other;
      }
      *before = through - x + __reduce_add_sync(kFullWarp, lane < warp ? of_lane : 0);
    }
    return __reduce_add_sync(kFullWarp, of_lane);
  }

 private:
  unsigned (&of_warp_)[2][kWarps];
  int turn_ = 0;
};

/// The greatest cut that at least n_read of the block's ranks reach; any that exactly n_read reach will do.
template <int kThreads, int kRanks>
__device__ PageRank find_cut(const PageRank (&rank)[kRanks], unsigned n_read, BlockCount<kThreads>& count) {
  PageRank cut = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const PageRank higher = cut | 1u << bit;
    unsigned n = 0;
#pragma unroll
    for (int i = 0; i < kRanks; ++i) n += rank[i] >= higher;
    n = count.sum(n);
    if (n >= n_read) cut = higher;
    if (n == n_read) break;
  }
  return cut;
}

/// Copies what belongs to the first n_read pages of `selected`; what lies behind is emptied. All threads of the block.
__device__ void write_view(const SelectPagesArgs& args, int head, int n_slots, int n_read) {
  const SlotCacheView& cache = args.cache;
  const long long row = static_cast<long long>(head) * args.max_selected;
  const std::int32_t* selected = args.selected + row;
  const int size = cache.page_size;
  for (int i = threadIdx.x; i < args.max_selected; i += blockDim.x) {
    args.page_table[row + i] =
        i < n_read ? cache.page_table[static_cast<long long>(head) * cache.max_pages + selected[i]] : 0;
  }
  for (int i = threadIdx.x; i < args.max_selected * size; i += blockDim.x) {
    const int slot = i < n_read * size ? selected[i / size] * size + i % size : n_slots;
    args.slot_position[row * size + i] = slot < n_slots ? cache.slot_position[slot_row(cache, head) + slot] : -1;
  }
  if (threadIdx.x == 0) {
    args.n_slots[head] = n_read == 0 ? 0 : (n_read - 1) * size + min(size, n_slots - selected[n_read - 1] * size);
  }
}

// One block a KV head. Thread t has pages t kRanks ... (t + 1) kRanks - 1, so that the threads' order is the pages'.
template <int kThreads, int kRanks>
__global__ void __launch_bounds__(kThreads) choose_pages_kernel(SelectPagesArgs args) {
  __shared__ unsigned of_warp[2][kThreads / 32];
  let_next_start();
  wait_for_previous();
  BlockCount<kThreads> count(of_warp);
  const int head = blockIdx.x, first = threadIdx.x * kRanks;
  const int n_slots = args.cache.n_slots[head];
  const PageRank* ranks = args.rank + static_cast<long long>(head) * args.cache.max_pages;
  PageRank rank[kRanks];
  unsigned here = 0;  // pages with tokens, pages that are read whatever their score
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    rank[i] = (first + i) * args.cache.page_size < n_slots ? ranks[first + i] : kNoTokens;
    here += pair_of(rank[i] != kNoTokens, rank[i] > kBestScore);
  }
  const unsigned all = count.sum(here);
  const unsigned wanted =
      min(max(static_cast<unsigned>(args.n_pages), high_of(all)), static_cast<unsigned>(args.max_selected));
  const unsigned n_read = min(wanted, low_of(all));
  const PageRank cut = n_read == low_of(all) ? kNoTokens : find_cut<kThreads, kRanks>(rank, n_read, count);

  here = 0;  // pages above the cut, pages at it
#pragma unroll
  for (int i = 0; i < kRanks; ++i) here += pair_of(rank[i] > cut, rank[i] == cut);
  unsigned before;
  const unsigned n_above = low_of(count.sum_and_before(here, &before));
  const unsigned n_at = n_read - n_above;  // of those at the cut the first ones
  unsigned above = low_of(before), at = high_of(before);
  std::int32_t* selected = args.selected + static_cast<long long>(head) * args.max_selected;
#pragma unroll
  for (int i = 0; i < kRanks; ++i) {
    if (rank[i] > cut || (rank[i] == cut && at < n_at)) selected[above + min(at, n_at)] = first + i;
    above += rank[i] > cut;
    at += rank[i] == cut;
  }
  for (int i = n_read + threadIdx.x; i < args.max_selected; i += kThreads) selected[i] = -1;
  __syncthreads();  // selected can be read
  write_view(args, head, n_slots, static_cast<int>(n_read));
}

template <int kThreads, int kRanks>
void launch_choice(const SelectPagesArgs& args, Stream stream) {
  launch_dependent(choose_pages_kernel<kThreads, kRanks>, dim3(args.cache.n_kv_heads), kThreads, 0, stream, args);
}

}  // namespace

void cuda::select_pages(const SelectPagesArgs& args, Stream stream) {
  const int max_pages = args.cache.max_pages;
  if (max_pages > kMaxPages) refuse("select_pages", "cache.max_pages", max_pages, "at most 32768");
  constexpr int kPagesOfBlock = kRankThreads / 32 * kRankPages;
  const int n_blocks = std::min((max_pages + kPagesOfBlock - 1) / kPagesOfBlock, kMaxBlocks);
  dispatch_dtype(args.cache.dtype, [&]<typename T>() {
    dispatch_head_dim("select_pages", args.cache.head_dim, [&]<int kHeadDim>() {
      launch_dependent(rank_pages_kernel<T, kHeadDim>, dim3(n_blocks, args.cache.n_kv_heads), kRankThreads, 0, stream,
                       args);
    });
  });
  if (max_pages <= 256 * 8) return launch_choice<256, 8>(args, stream);
  if (max_pages <= 1024 * 8) return launch_choice<1024, 8>(args, stream);
  launch_choice<1024, 32>(args, stream);
}

}  // namespace kvscope::kernels
