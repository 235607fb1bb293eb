#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/page_bounds.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {
namespace {

// One block per (page, KV head), or per KV head where its decision names the page; one thread per channel.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kHeadDim) page_bounds_kernel(PageBoundsArgs args) {
  let_next_start();
  wait_for_previous();
  const SlotCacheView& cache = args.cache;
  const int head = blockIdx.y, channel = threadIdx.x;
  int page = blockIdx.x;
  if (args.decision) {
    const int slot = args.decision[head].slot;
    if (slot < 0) return;
    page = slot / cache.page_size;
  }
  const int first = page * cache.page_size;
  const int n = min(cache.page_size, cache.n_slots[head] - first);
  if (n <= 0) return;
  const std::int32_t* position = cache.slot_position + slot_row(cache, head) + first;
  const T* keys = static_cast<const T*>(cache.k_pool) + slot_offset(cache, head, first) + channel;
  float low = INFINITY, high = -INFINITY;
  bool is_empty = true;
#pragma unroll 8
  for (int row = 0; row < n; ++row) {
    if (position[row] < 0) continue;
    const float x = to_float(keys[static_cast<long long>(row) * kHeadDim]);
    low = x < low || x != x ? x : low;  // a NaN takes the bound's place and stays
    high = x > high || x != x ? x : high;
    is_empty = false;
  }
  if (is_empty) return;
  const long long row = (static_cast<long long>(head) * cache.max_pages + page) * 2;
  T* bounds = static_cast<T*>(args.bounds) + row * kHeadDim + channel;
  bounds[0] = from_float<T>(low);
  bounds[kHeadDim] = from_float<T>(high);
}

}  // namespace

void cuda::page_bounds(const PageBoundsArgs& args, Stream stream) {
  const dim3 grid(args.decision ? 1 : args.cache.max_pages, args.cache.n_kv_heads);
  dispatch_dtype(args.cache.dtype, [&]<typename T>() {
    dispatch_head_dim("page_bounds", args.cache.head_dim, [&]<int kHeadDim>() {
      launch_dependent(page_bounds_kernel<T, kHeadDim>, grid, kHeadDim, 0, stream, args);
    });
  });
}

}  // namespace kvscope::kernels
