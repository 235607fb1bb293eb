#include "engine/decode/eviction/slot_order.h"

#include <algorithm>

namespace kvscope::engine {
namespace {

constexpr std::size_t kFewMoves = 32;  // a head; each is a search

}  // namespace

const std::vector<SlotOrder::Head>& SlotOrder::read(const SlotCache& cache, int n_tokens) {
  if (n_tokens_ == n_tokens) return heads_;
  const at::Tensor all = cache.slot_positions().cpu();  // [n_layers, n_kv_heads, slots], in one wait
  const auto n_kv_heads = static_cast<int>(all.size(1));
  heads_.resize(static_cast<std::size_t>(all.size(0) * n_kv_heads));
  for (int head = 0; head < static_cast<int>(heads_.size()); ++head) {
    const std::int32_t* position = all.data_ptr<std::int32_t>() + head * all.size(2);
    auto& [slots, positions] = heads_[static_cast<std::size_t>(head)];
    slots.clear(), positions.clear();
    for (int slot = 0; slot < cache.n_slots(head / n_kv_heads, head % n_kv_heads); ++slot)
      if (position[slot] >= 0) slots.push_back(slot);
    const auto by_position = [&](int a, int b) { return position[a] < position[b]; };
    if (!std::ranges::is_sorted(slots, by_position)) std::ranges::sort(slots, by_position);
    for (const std::int32_t slot : slots) positions.push_back(position[slot]);
  }
  n_tokens_ = n_tokens;
  return heads_;
}

void SlotOrder::note_step(std::int32_t position, const kernels::RetainDecision* decisions) {
  if (position != n_tokens_) return forget();
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    auto& [slots, positions] = heads_[head];
    if (const std::int32_t gone = decisions[head].evicted; gone >= 0) {
      const auto at = std::ranges::lower_bound(positions, gone);
      slots.erase(slots.begin() + (at - positions.begin()));
      positions.erase(at);
    }
    slots.push_back(decisions[head].slot);
    positions.push_back(position);
  }
  ++n_tokens_;
}

void SlotOrder::remove(const std::vector<std::vector<std::int32_t>>& leave, const std::vector<SlotCache::Move>& moves) {
  if (moves.size() > kFewMoves * heads_.size()) return forget();
  for (std::size_t head = 0; head < leave.size(); ++head) {
    if (leave[head].empty()) continue;
    for (std::vector<std::int32_t>* list : {&heads_[head].slots, &heads_[head].positions}) {
      auto to = list->begin() + leave[head].front();
      auto gone = leave[head].begin();
      for (auto from = to; from != list->end(); ++from) {
        if (gone != leave[head].end() && from - list->begin() == *gone) {
          ++gone;
        } else {
          *to++ = *from;
        }
      }
      list->erase(to, list->end());
    }
  }
  for (const auto& [head, from, to] : moves) *std::ranges::find(heads_[head].slots, from) = to;
}

}  // namespace kvscope::engine
