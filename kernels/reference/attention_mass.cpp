#include "kernels/attention_mass.h"

#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

bool is_occupied(const SlotCacheView& cache, int kv_head, std::int32_t slot) {
  return slot < cache.n_slots[kv_head] && cache.slot_position[first_slot_of(cache, kv_head) + slot] >= 0;
}

/// Sum of p over the query heads of a KV head.
double group_mass(const AttentionMassArgs& args, int kv_head, std::int32_t slot) {
  const SlotCacheView& cache = args.cache;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const std::int64_t key = first_element_of(cache, kv_head, slot);
  double mass = 0;
  for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
    double dot = 0;
    for (int i = 0; i < cache.head_dim; ++i) {
      dot += load(args.q, static_cast<std::int64_t>(head) * cache.head_dim + i, cache.dtype) *
             load(cache.k_pool, key + i, cache.dtype);
    }
    mass += std::exp(score(dot, args.scale, args.soft_cap) - args.lse[head]);
  }
  return mass;
}

}  // namespace

void attention_mass(const AttentionMassArgs& args) {
  const SlotCacheView& cache = args.cache;
  for (std::int32_t slot = 0; slot < cache.max_pages * cache.page_size; ++slot) {
    double of_layer = 0;
    for (int head = 0; head < cache.n_kv_heads; ++head) {
      if (!is_occupied(cache, head, slot)) continue;
      const double mass = group_mass(args, head, slot);
      of_layer += mass;
      if (args.rule == MassRule::last) continue;
      float& priority = cache.slot_priority[first_slot_of(cache, head) + slot];
      const int age = *args.position - cache.slot_position[first_slot_of(cache, head) + slot];
      const double before = age == 0 ? 0 : priority, mean = mass / (args.n_heads / cache.n_kv_heads);
      priority = static_cast<float>(args.rule == MassRule::sum ? before + mean : before + (mean - before) / (age + 1));
    }
    if (args.rule != MassRule::last) continue;
    for (int head = 0; head < cache.n_kv_heads; ++head) {
      if (!is_occupied(cache, head, slot)) continue;
      cache.slot_priority[first_slot_of(cache, head) + slot] = static_cast<float>(of_layer / args.n_heads);
    }
  }
}

}  // namespace kvscope::kernels::reference
