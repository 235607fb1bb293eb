#pragma once
// Byte-pair merges of one word.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvscope {

/// (left id, right id) -> rank and id of the merged token: open addressing, one cache line a look-up.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = -1, id = -1;  // rank -1: these two do not merge
  };
  explicit MergeTable(std::size_t expected = 0);
  /// The same pair again replaces: the last rank wins.
  void set(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const {
    for (std::size_t i = slot(key(left, right));; i = (i + 1) & mask_) {
      if (entries_[i].key == key(left, right)) return entries_[i].merge;
      if (entries_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  /// The product's highest bits: only they depend on all of the key.
  std::size_t slot(std::uint64_t k) const { return k * 0x9E3779B97F4A7C15u >> shift_; }
  void resize(std::size_t size);  // a power of two
  std::vector<Entry> entries_;
  std::size_t mask_ = 0, used_ = 0;
  int shift_ = 0;
};

/// Merges in place: the pair of lowest rank first, the leftmost of equals, until none is left. O(n^2) with a small
/// constant; for short words. Returns the number of ids left.
std::size_t merge_by_scan(const MergeTable& merges, std::span<std::int32_t> ids);
/// The same result in O(n log n), through a heap over a linked list; for long words.
std::size_t merge_by_heap(const MergeTable& merges, std::span<std::int32_t> ids);

}  // namespace kvscope
