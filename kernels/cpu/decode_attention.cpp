#include "kernels/decode_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/slot_runs.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

/// What a thread needs for one KV head; kept between calls, which are too short to allocate in.
struct Buffers {
  std::vector<float> q, logits, o;
  std::vector<OnlineSoftmax> softmax;
};

/// All query heads of one KV head, so that each key and value is read once.
void attend_group(const DecodeAttentionArgs& args, int kv_head) {
  const SlotCacheView& cache = args.cache;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const std::int64_t n = static_cast<std::int64_t>(group_size) * cache.head_dim, first = kv_head * n;
  thread_local Buffers buffers;
  const void* q = queries_for_keys(args.q, first, n, cache.dtype, buffers.q);
  buffers.o.assign(n, 0.0f);
  buffers.logits.resize(group_size * kSlotTile);
  buffers.softmax.resize(group_size);
  for (int g = 0; g < group_size; ++g)
    buffers.softmax[g] = OnlineSoftmax::of_sink(args.variant, kv_head * group_size + g);
  float* o = buffers.o.data();
  float* logits = buffers.logits.data();

  const std::int32_t n_slots = cache.n_slots[kv_head];
  for (std::int32_t begin = 0; begin < n_slots; begin += kSlotTile) {
    SlotRun runs[kSlotTile];
    const int n_runs = find_runs(cache, kv_head, begin, std::min(begin + kSlotTile, n_slots), runs);
    int n_keys = 0;
    for (int i = 0; i < n_runs; n_keys += runs[i++].n) multiply_keys(cache, runs[i], q, group_size, logits + n_keys);
    for (int g = 0; g < group_size; ++g) {
      make_scores(logits + g * kSlotTile, args.scale, args.variant.soft_cap, n_keys);
      const float correction = buffers.softmax[g].absorb(logits + g * kSlotTile, n_keys);
      scale(o + g * cache.head_dim, correction, cache.head_dim);
    }
    n_keys = 0;
    for (int i = 0; i < n_runs; n_keys += runs[i++].n) {
      best_gemv().add(cache.dtype, cache.v_pool, runs[i].offset, logits + n_keys, kSlotTile, cache.head_dim, runs[i].n,
                      group_size, o);
    }
  }
  for (int g = 0; g < group_size; ++g) {
    scale(o + g * cache.head_dim, buffers.softmax[g].normaliser(), cache.head_dim);
    if (args.lse) args.lse[kv_head * group_size + g] = buffers.softmax[g].lse();
  }
  store(o, args.o, first, n, cache.dtype);
}

}  // namespace

void decode_attention(const DecodeAttentionArgs& args) {
  const SlotCacheView& cache = args.cache;
  const std::int32_t n_slots = *std::max_element(cache.n_slots, cache.n_slots + cache.n_kv_heads);
  const std::int64_t cost = 4L * n_slots * cache.head_dim * (args.n_heads / cache.n_kv_heads);
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { attend_group(args, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
