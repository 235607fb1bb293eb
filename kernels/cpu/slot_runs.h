#pragma once
// The occupied slots of a KV head as runs of rows, and their keys times a group's queries.

#include <algorithm>
#include <vector>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/vector.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {

constexpr int kSlotTile = 64;  // slots looked at together

/// Occupied slots that lie one after the other in the pools.
struct SlotRun {
  std::int64_t offset;  // of the first one's elements
  int n;
};

/// The runs among slots begin ... end - 1 of a head (at most kSlotTile). Free slots are left out rather than weighted
/// 0: what lies in them may be NaN, and 0 * NaN is NaN. Returns how many runs there are.
inline int find_runs(const SlotCacheView& cache, int kv_head, std::int32_t begin, std::int32_t end, SlotRun* runs) {
  const std::int32_t* position = cache.slot_position + slot_row(cache, kv_head);
  int n_runs = 0;
  for (std::int32_t slot = begin; slot < end;) {
    const std::int32_t page_end = std::min(end, (slot / cache.page_size + 1) * cache.page_size);
    std::int64_t offset = slot_offset(cache, kv_head, slot);
    for (bool continues = false; slot < page_end; ++slot, offset += cache.head_dim) {
      const bool is_occupied = position[slot] >= 0;
      if (is_occupied && continues) ++runs[n_runs - 1].n;
      if (is_occupied && !continues) runs[n_runs++] = {offset, 1};
      continues = is_occupied;
    }
  }
  return n_runs;
}

/// Elements [first, first + n) of the queries `q` as multiply_keys() wants them; `buffer` keeps them where they have to
/// be converted.
inline const void* queries_for_keys(const void* q, std::int64_t first, std::int64_t n, DType dtype,
                                    std::vector<float>& buffer) {
  if (dtype == DType::bf16 && best_gemv().narrow_vectors) return static_cast<const BFloat16*>(q) + first;
  buffer.resize(n);
  return as_floats(q, first, n, dtype, buffer.data());
}

/// logits[g * kSlotTile + i] = q_g . k_i for the keys of a run.
inline void multiply_keys(const SlotCacheView& cache, const SlotRun& run, const void* q, int group_size,
                          float* logits) {
  best_gemv().multiply(cache.dtype, cache.k_pool, run.offset, q, cache.head_dim, run.n, group_size, logits, kSlotTile);
}

}  // namespace kvscope::kernels::cpu
