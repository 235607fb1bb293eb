#include "kernels/attention_mass.h"

#include <algorithm>

#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/slot_runs.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

/// What a thread needs for one tile; kept between calls, which are too short to allocate in.
struct Buffers {
  std::vector<float> q, logits;
};

/// mass[i]: sum of p over the query heads of a KV head, for the i-th occupied slot among begin ... end - 1. Returns how
/// many are occupied.
int group_mass(const AttentionMassArgs& args, int kv_head, std::int32_t begin, std::int32_t end, Buffers& buffers,
               float* mass) {
  const SlotCacheView& cache = args.cache;
  SlotRun runs[kSlotTile];
  const int n_runs = find_runs(cache, kv_head, begin, end, runs);
  if (n_runs == 0) return 0;  // lse may be -inf
  const int group_size = args.n_heads / cache.n_kv_heads;
  const std::int64_t n = static_cast<std::int64_t>(group_size) * cache.head_dim;
  const void* q = queries_for_keys(args.q, kv_head * n, n, cache.dtype, buffers.q);
  buffers.logits.resize(group_size * kSlotTile);
  float* p = buffers.logits.data();
  int n_keys = 0;
  for (int i = 0; i < n_runs; n_keys += runs[i++].n) multiply_keys(cache, runs[i], q, group_size, p + n_keys);
  std::fill_n(mass, n_keys, 0.0f);
  for (int g = 0; g < group_size; ++g, p += kSlotTile) {
    make_scores(p, args.scale, args.soft_cap, n_keys);
    exp_and_sum(p, args.lse[kv_head * group_size + g], n_keys);
    add_scaled(mass, 1, p, n_keys);
  }
  return n_keys;
}

/// Calls body(i, slot) for the i-th occupied slot among begin ... end - 1.
template <typename Body>
void for_each_occupied(const SlotCacheView& cache, int kv_head, std::int32_t begin, std::int32_t end, Body body) {
  const std::int32_t* position = cache.slot_position + slot_row(cache, kv_head);
  int i = 0;
  for (std::int32_t slot = begin; slot < end; ++slot) {
    if (position[slot] >= 0) body(i++, slot);
  }
}

/// Slots begin ... begin + kSlotTile - 1 of every KV head.
void tile_mass(const AttentionMassArgs& args, std::int32_t begin) {
  thread_local Buffers buffers;
  const SlotCacheView& cache = args.cache;
  const auto end_of = [&](int head) { return std::min(begin + kSlotTile, cache.n_slots[head]); };
  float mass[kSlotTile], of_layer[kSlotTile] = {};
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    group_mass(args, head, begin, end_of(head), buffers, mass);
    const std::int64_t row = slot_row(cache, head);
    for_each_occupied(cache, head, begin, end_of(head), [&](int i, std::int32_t slot) {
      of_layer[slot - begin] += mass[i];
      if (args.rule == MassRule::last) return;
      const float mean = mass[i] / static_cast<float>(args.n_heads / cache.n_kv_heads);
      float& priority = cache.slot_priority[row + slot];
      priority = priority_after(args.rule, priority, mean, cache.slot_position[row + slot], *args.position);
    });
  }
  if (args.rule != MassRule::last) return;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    for_each_occupied(cache, head, begin, end_of(head), [&](int, std::int32_t slot) {
      cache.slot_priority[slot_row(cache, head) + slot] = of_layer[slot - begin] / static_cast<float>(args.n_heads);
    });
  }
}

}  // namespace

void attention_mass(const AttentionMassArgs& args) {
  const SlotCacheView& cache = args.cache;
  const std::int32_t n_slots = *std::max_element(cache.n_slots, cache.n_slots + cache.n_kv_heads);
  const std::int64_t cost = 2L * kSlotTile * args.n_heads * cache.head_dim;
  parallel_for((n_slots + kSlotTile - 1) / kSlotTile, cost,
               [&](std::int64_t tile) { tile_mass(args, static_cast<std::int32_t>(tile) * kSlotTile); });
}

}  // namespace kvscope::kernels::cpu
