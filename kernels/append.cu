#include "kernels/append.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/slots.cuh"
#include "kernels/validate.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 64;

/// Positions of the new tokens: an array, or the one number that append() has.
struct Positions {
  const std::int32_t* array;  // [n_tokens], or null for `one`
  std::int32_t one;
};

// One block per (token, KV head).
template <typename T>
__global__ void append_kernel(SlotCacheView cache, const T* k, const T* v, const std::int32_t* slots,
                              Positions positions) {
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
    cache.slot_position[slot_row(cache, head) + slot] = positions.array ? positions.array[token] : positions.one;
  }
}

void launch(const SlotCacheView& cache, const void* k, const void* v, const std::int32_t* slot, Positions positions,
            std::int64_t n_tokens, Stream stream) {
  const dim3 grid(static_cast<unsigned>(n_tokens), cache.n_kv_heads);
  dispatch_dtype(cache.dtype, [&]<typename T>() {
    append_kernel<T>
        <<<grid, kThreads, 0, stream>>>(cache, static_cast<const T*>(k), static_cast<const T*>(v), slot, positions);
  });
  check_launch();
}

}  // namespace

void append(const AppendArgs& args, Stream stream) {
  validate(args);
  launch(args.cache, args.k, args.v, args.slot, {nullptr, args.position}, 1, stream);
}

void append_many(const AppendManyArgs& args, Stream stream) {
  validate(args);
  if (args.n_tokens == 0) return;
  launch(args.cache, args.k, args.v, args.slot, {args.position, 0}, args.n_tokens, stream);
}

}  // namespace kvscope::kernels
