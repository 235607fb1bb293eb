#include "kernels/decode_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/slots.h"
#include "kernels/cpu/vector.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kTile = 64;  // slots

/// All query heads of one KV head, so that each key and value is read once.
void attend_group(const DecodeAttentionArgs& args, int kv_head) {
  const SlotCacheView& cache = args.cache;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const int head_dim = cache.head_dim;
  const std::int64_t first = static_cast<std::int64_t>(kv_head) * group_size * head_dim;
  const std::int32_t n_slots = cache.n_slots[kv_head];
  const std::int32_t* position = cache.slot_position + slot_row(cache, kv_head);

  std::vector<float> q_buffer(group_size * head_dim), row_buffer(head_dim);
  std::vector<float> logits(group_size * kTile), o(group_size * head_dim, 0.0f);
  std::vector<OnlineSoftmax> softmax(group_size);
  const float* q = as_floats(args.q, first, group_size * head_dim, cache.dtype, q_buffer.data());

  for (std::int32_t begin = 0; begin < n_slots; begin += kTile) {
    // Free slots are left out here rather than weighted 0: what lies in them may be NaN, and 0 * NaN is NaN.
    std::int64_t offset[kTile];
    int n = 0;
    for (std::int32_t slot = begin; slot < std::min(begin + kTile, n_slots); ++slot) {
      if (position[slot] >= 0) offset[n++] = slot_offset(cache, kv_head, slot);
    }
    for (int s = 0; s < n; ++s) {
      const float* k = as_floats(cache.k_pool, offset[s], head_dim, cache.dtype, row_buffer.data());
      for (int g = 0; g < group_size; ++g) logits[g * kTile + s] = args.scale * dot(q + g * head_dim, k, head_dim);
    }
    for (int g = 0; g < group_size; ++g) {
      scale(o.data() + g * head_dim, softmax[g].absorb(logits.data() + g * kTile, n), head_dim);
    }
    for (int s = 0; s < n; ++s) {
      const float* v = as_floats(cache.v_pool, offset[s], head_dim, cache.dtype, row_buffer.data());
      for (int g = 0; g < group_size; ++g) add_scaled(o.data() + g * head_dim, logits[g * kTile + s], v, head_dim);
    }
  }
  for (int g = 0; g < group_size; ++g) {
    scale(o.data() + g * head_dim, softmax[g].normaliser(), head_dim);
    if (args.lse) args.lse[kv_head * group_size + g] = softmax[g].lse();
  }
  store(o.data(), args.o, first, group_size * head_dim, cache.dtype);
}

}  // namespace

void decode_attention(const DecodeAttentionArgs& args) {
  validate(args);
  const SlotCacheView& cache = args.cache;
  const std::int32_t n_slots = *std::max_element(cache.n_slots, cache.n_slots + cache.n_kv_heads);
  const std::int64_t cost = 4L * n_slots * cache.head_dim * (args.n_heads / cache.n_kv_heads);
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { attend_group(args, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
