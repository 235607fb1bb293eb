#include "kernels/append.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 64;

// One block per (token, KV head). 32 blocks a multiprocessor: no more than 32 registers.
template <typename T>
__global__ void __launch_bounds__(kThreads, 32)
    append_kernel(SlotCacheView cache, const T* k, const T* v, const std::int32_t* slots,
                  const std::int32_t* positions) {
  const long long token = blockIdx.x;
  const int head = blockIdx.y;
  const std::int32_t slot = slots[head * static_cast<long long>(gridDim.x) + token];
  if (slot < 0) return;
  const long long from = (token * cache.n_kv_heads + head) * cache.head_dim;
  const long long to = slot_offset(cache, head, slot);
  for (int i = threadIdx.x; i < cache.head_dim; i += kThreads) {
    static_cast<T*>(cache.k_pool)[to + i] = k[from + i];
    static_cast<T*>(cache.v_pool)[to + i] = v[from + i];
  }
  if (threadIdx.x == 0) {
    cache.slot_position[slot_row(cache, head) + slot] = positions[token];
  }
}

}  // namespace

void cuda::append(const AppendArgs& args, Stream stream) {
  const dim3 grid(static_cast<unsigned>(args.n_tokens), args.cache.n_kv_heads);
  dispatch_dtype(args.cache.dtype, [&]<typename T>() {
    append_kernel<T><<<grid, kThreads, 0, stream>>>(args.cache, static_cast<const T*>(args.k),
                                                    static_cast<const T*>(args.v), args.slot, args.position);
  });
  check_launch();
}

}  // namespace kvscope::kernels
