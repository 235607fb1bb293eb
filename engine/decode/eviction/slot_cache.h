#pragma once
// The paged, ragged slot cache: keys and values of one sequence, as many per (layer, KV head) as its policy keeps.
// Includes LibTorch.

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/slot_cache.h"

namespace kvscope::engine {

inline constexpr int kPageSize = 16;  // tokens a page

/// Owns the tensors behind kernels::SlotCacheView for every layer.
///
/// Every (layer, KV head) has slots 0 ... n_slots - 1, in pages taken from one pool as they are needed. The kernels
/// choose slots on the device; the host only has to see to it that a page stands ready, which it can because it reads
/// the decisions of every step (note_slot). The pool doubles when it is used up; a policy with a fixed budget takes its
/// pages once (reserve).
class SlotCache {
 public:
  /// max_slots: the most that any head will ever use.
  SlotCache(int n_layers, int n_kv_heads, int head_dim, int max_slots, at::ScalarType dtype, c10::Device device);

  kernels::SlotCacheView view(int layer);

  /// Gives every head pages for its first `slots` slots (at most max_slots).
  void reserve(int slots);
  /// Those of one layer.
  void reserve(int layer, int slots);
  /// Gives every head pages for its next n slots. To be called before each step.
  void reserve_next(int n = 1);
  /// The kernels have used `slot` of this head.
  void note_slot(int layer, int kv_head, int slot);
  /// Sets the slots in use of a layer after a prefill, host and device; n_slots: [n_kv_heads].
  void set_slots(int layer, std::span<const std::int32_t> n_slots);

  /// Every head of every layer holds slots 0 ... n - 1, as a dense cache does. Does not wait for the device.
  void fill_slots(int n);
  /// Those of one layer.
  void fill_slots(int layer, int n);
  /// Keys and values of slots 0 ... n - 1 of a layer, [n_kv_heads, n, head_dim], every row contiguous. What lies in a
  /// slot without a token is anything. A view of the pool where every head's pages follow each other, as reserve() on an
  /// empty cache gives them; a copy otherwise.
  struct Rows {
    at::Tensor k, v;
  };
  Rows rows(int layer, int n) const;
  /// One row a head of the given layers, that of its slot in `slots` [n_layers * n_kv_heads]: copies [layers, n_kv_heads, head_dim].
  Rows rows_of(std::span<const int> layers, std::span<const std::int32_t> slots) const;

  /// Those of the tokens in the slots of some layers, on the device alone: layer [n] and slot [n, n_kv_heads, m] int64, each slot
  /// with a page or 0; -> [n * n_kv_heads, m, head_dim] copies. v undefined unless asked for.
  Rows rows_in(const at::Tensor& layer, const at::Tensor& slot, bool with_values) const;

  /// A cache of at most max_slots slots a head that holds what stands in the given slots alone, in this order from slot 0
  /// on; keep: [n_layers * n_kv_heads]. `reserve`: as reserve(max_slots). The rest of the memory is the device's again
  /// when this cache goes.
  SlotCache only(const std::vector<std::vector<std::int32_t>>& keep, int max_slots, bool reserve) const;

  /// Takes the tokens in the given slots out, [n_layers * n_kv_heads][any order]: what a head held last moves into their
  /// slots, so that it holds slots 0 ... n - 1 again, and pages that this leaves empty are for any head. Costs what moves,
  /// not what stays; memory of the device is only() what gives it back. Returns the moves.
  struct Move {
    std::size_t head;
    std::int32_t from, to;
  };
  std::vector<Move> remove(std::vector<std::vector<std::int32_t>> slots);

  /// Raw scores of a layer's slots, [n_kv_heads, max_slots rounded up to pages]; to be filled by a prefill.
  at::Tensor slot_priority(int layer) const { return slot_priority_[layer]; }
  at::Tensor slot_priorities() const { return slot_priority_; }  // [n_layers, ...]

  int max_slots() const { return max_slots_; }
  int max_pages() const { return max_pages_; }
  /// Position of the token in each slot of a layer, [n_kv_heads, max_slots rounded up to pages] int32, -1: none.
  at::Tensor slot_position(int layer) const { return slot_position_[layer]; }
  at::Tensor slot_positions() const { return slot_position_; }  // [n_layers, ...]
  int n_slots(int layer, int kv_head) const { return n_slots_host_[index(layer, kv_head)]; }
  /// Positions that are kept, ascending. Copies from the device.
  std::vector<std::int32_t> positions(int layer, int kv_head) const;
  /// Bytes of keys and values of the pages that are given out.
  std::int64_t bytes() const;
  /// Bytes of the whole pool.
  std::int64_t pool_bytes() const;
  /// Writes NaN over every row of the pool that holds no token. Attention must not notice; tests call it.
  void poison_free_rows();

 private:
  std::size_t index(int layer, int kv_head) const { return static_cast<std::size_t>(layer) * n_kv_heads_ + kv_head; }
  std::int64_t pool_row(std::size_t head, std::int32_t slot) const;
  bool map_pages(int layer, int kv_head, int slots);  // true if the table changed
  void grow_pool(std::int64_t n_pages);
  void upload_page_table();
  /// Pages from one head of the layer to the next if all of them, up to slot n - 1, follow each other; 0 if not.
  std::int64_t page_stride(int layer, int n) const;

  int n_layers_, n_kv_heads_, head_dim_, max_slots_, max_pages_;
  std::int64_t pages_used_ = 0;  // of the pool, those that came back included
  std::vector<std::int32_t> free_pages_;
  at::Tensor k_pool_, v_pool_;             // [n_pages, kPageSize, head_dim]
  at::Tensor page_table_;                  // [n_layers, n_kv_heads, max_pages] int32
  at::Tensor page_table_host_;             // the same on the CPU, where pages are given out
  std::vector<std::int64_t> new_entries_;  // cells of the table that the device does not have yet
  at::Tensor slot_position_;               // [n_layers, n_kv_heads, max_pages * kPageSize] int32
  at::Tensor slot_priority_;               // likewise, float32
  at::Tensor n_slots_;                     // [n_layers, n_kv_heads] int32
  std::vector<std::int32_t> n_slots_host_;
  std::vector<std::int32_t> pages_of_head_;  // [n_layers * n_kv_heads]
};

}  // namespace kvscope::engine
