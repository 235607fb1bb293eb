#include "engine/core/files/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

namespace kvscope {

MergeTable::MergeTable(std::size_t expected) { resize(std::bit_ceil(std::max<std::size_t>(expected * 2, 16))); }

void MergeTable::resize(std::size_t size) {
  std::vector<Entry> old(size);
  old.swap(entries_);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  used_ = 0;
  for (const Entry& e : old) {
    if (e.key != kEmpty) set(static_cast<std::int32_t>(e.key >> 32), static_cast<std::int32_t>(e.key), e.merge);
  }
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  if ((used_ + 1) * 2 > entries_.size()) resize(entries_.size() * 2);
  const std::uint64_t k = key(left, right);
  std::size_t i = slot(k);
  while (entries_[i].key != k && entries_[i].key != kEmpty) i = (i + 1) & mask_;
  used_ += entries_[i].key == kEmpty;
  entries_[i] = {k, merge};
}

std::size_t merge_by_scan(const MergeTable& merges, std::span<std::int32_t> ids) {
  std::size_t n = ids.size();
  std::vector<MergeTable::Merge> heap_pairs;
  constexpr std::size_t kOnStack = 64;
  MergeTable::Merge stack_pairs[kOnStack];
  MergeTable::Merge* pairs = stack_pairs;  // pairs[i] merges ids[i] and ids[i + 1]
  if (n > kOnStack) {
    heap_pairs.resize(n);
    pairs = heap_pairs.data();
  }
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  for (;;) {
    std::size_t best = n;
    // Unsigned, so that -1 (no merge) is the largest.
    std::uint32_t rank = ~0u;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const auto r = static_cast<std::uint32_t>(pairs[i].rank);
      if (r < rank) rank = r, best = i;
    }
    if (best == n) return n;
    ids[best] = pairs[best].id;
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    std::copy(pairs + best + 1, pairs + n - 1, pairs + best);
    --n;
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best + 1 < n) pairs[best] = merges.find(ids[best], ids[best + 1]);
  }
}

std::size_t merge_by_heap(const MergeTable& merges, std::span<std::int32_t> ids) {
  struct Candidate {
    std::int32_t rank, id;
    std::uint32_t left, right;                      // positions of the two symbols
    std::int32_t left_id, right_id;                 // what they were; they may have merged with others since
    bool operator<(const Candidate& other) const {  // the queue gives the largest first
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  constexpr std::uint32_t kNone = ~0u;
  const auto n = static_cast<std::uint32_t>(ids.size());
  std::vector<std::uint32_t> before(n), after(n);
  std::vector<Candidate> storage;
  storage.reserve(n);
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
  const auto offer = [&](std::uint32_t left, std::uint32_t right) {
    const MergeTable::Merge merge = merges.find(ids[left], ids[right]);
    if (merge.rank >= 0) queue.push({merge.rank, merge.id, left, right, ids[left], ids[right]});
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    before[i] = i == 0 ? kNone : i - 1;
    after[i] = i + 1 == n ? kNone : i + 1;
    if (i > 0) offer(i - 1, i);
  }
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    if (ids[c.left] != c.left_id || ids[c.right] != c.right_id || after[c.left] != c.right) continue;
    ids[c.left] = c.id;
    ids[c.right] = -1;  // gone; no candidate has this id
    after[c.left] = after[c.right];
    if (after[c.left] != kNone) {
      before[after[c.left]] = c.left;
      offer(c.left, after[c.left]);
    }
    if (before[c.left] != kNone) offer(before[c.left], c.left);
  }
  return static_cast<std::size_t>(std::remove(ids.begin(), ids.end(), -1) - ids.begin());
}

}  // namespace kvscope
