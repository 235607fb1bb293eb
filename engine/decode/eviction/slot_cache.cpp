#include "engine/decode/eviction/slot_cache.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kFewEntries = 64;  // of the page table at most one in so many goes by itself

int pages_for(int slots) { return (slots + kPageSize - 1) / kPageSize; }

}  // namespace

SlotCache::SlotCache(int n_layers, int n_kv_heads, int head_dim, int max_slots, at::ScalarType dtype,
                     c10::Device device)
    : n_layers_(n_layers),
      n_kv_heads_(n_kv_heads),
      head_dim_(head_dim),
      max_slots_(max_slots),
      max_pages_(pages_for(max_slots)),
      n_slots_host_(static_cast<std::size_t>(n_layers) * n_kv_heads, 0),
      pages_of_head_(n_slots_host_.size(), 0) {
  const auto ints = at::TensorOptions().device(device).dtype(at::kInt);
  const auto values = at::TensorOptions().device(device).dtype(dtype);
  k_pool_ = at::empty({0, kPageSize, head_dim}, values);
  v_pool_ = at::empty_like(k_pool_);
  page_table_ = at::zeros({n_layers, n_kv_heads, max_pages_}, ints);
  page_table_host_ = at::zeros({n_layers, n_kv_heads, max_pages_}, at::kInt);
  slot_position_ = at::full({n_layers, n_kv_heads, max_pages_ * kPageSize}, -1, ints);
  slot_priority_ = at::zeros({n_layers, n_kv_heads, max_pages_ * kPageSize}, ints.dtype(at::kFloat));
  n_slots_ = at::zeros({n_layers, n_kv_heads}, ints);
}

kernels::SlotCacheView SlotCache::view(int layer) {
  return {.k_pool = k_pool_.data_ptr(),
          .v_pool = v_pool_.data_ptr(),
          .page_table = page_table_.data_ptr<std::int32_t>() + index(layer, 0) * max_pages_,
          .slot_position = slot_position_.data_ptr<std::int32_t>() + index(layer, 0) * max_pages_ * kPageSize,
          .n_slots = n_slots_.data_ptr<std::int32_t>() + index(layer, 0),
          .slot_priority = slot_priority_.data_ptr<float>() + index(layer, 0) * max_pages_ * kPageSize,
          .n_kv_heads = n_kv_heads_,
          .head_dim = head_dim_,
          .page_size = kPageSize,
          .max_pages = max_pages_,
          .dtype = kernel_dtype(k_pool_.scalar_type())};
}

bool SlotCache::map_pages(int layer, int kv_head, int slots) {
  std::int32_t& pages = pages_of_head_[index(layer, kv_head)];
  const int wanted = pages_for(std::min(slots, max_slots_));
  if (wanted <= pages) return false;
  std::int32_t* table = page_table_host_.data_ptr<std::int32_t>() + index(layer, kv_head) * max_pages_;
  while (pages < wanted) {
    new_entries_.push_back(static_cast<std::int64_t>(index(layer, kv_head)) * max_pages_ + pages);
    if (free_pages_.empty()) {
      table[pages++] = static_cast<std::int32_t>(pages_used_++);
    } else {
      table[pages++] = free_pages_.back();
      free_pages_.pop_back();
    }
  }
  return true;
}

void SlotCache::grow_pool(std::int64_t n_pages) {
  for (at::Tensor* pool : {&k_pool_, &v_pool_}) {
    // Zeros, not whatever memory held: a masked row is multiplied by 0, and 0 * NaN would be NaN.
    at::Tensor grown = at::zeros({n_pages, kPageSize, head_dim_}, pool->options());
    grown.narrow(0, 0, pool->size(0)).copy_(*pool);
    *pool = std::move(grown);
  }
}

void SlotCache::upload_page_table() {
  if (pages_used_ > k_pool_.size(0)) grow_pool(std::max(pages_used_, 2 * k_pool_.size(0)));
  const auto n = static_cast<std::int64_t>(new_entries_.size());
  if (n * kFewEntries > page_table_.numel()) {
    page_table_.copy_(page_table_host_);
  } else {
    // Of a long cache the table is megabytes, and with ragged heads some head takes a page at nearly every step.
    const std::int32_t* table = page_table_host_.data_ptr<std::int32_t>();
    at::Tensor host = at::empty({2, n}, at::kLong);
    std::int64_t* to = host.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) to[i] = new_entries_[static_cast<std::size_t>(i)], to[n + i] = table[to[i]];
    const at::Tensor there =
        host.to(page_table_.device(), /*non_blocking=*/true);  // pageable: staged before it returns
    page_table_.view({-1}).index_copy_(0, there[0], there[1].to(at::kInt));
  }
  new_entries_.clear();
}

void SlotCache::reserve(int slots) {
  bool changed = false;
  for (int layer = 0; layer < n_layers_; ++layer) {
    for (int head = 0; head < n_kv_heads_; ++head) changed |= map_pages(layer, head, slots);
  }
  if (changed) upload_page_table();
}

void SlotCache::reserve(int layer, int slots) {
  bool changed = false;
  for (int head = 0; head < n_kv_heads_; ++head) changed |= map_pages(layer, head, slots);
  if (changed) upload_page_table();
}

void SlotCache::reserve_next(int n) {
  bool changed = false;
  for (int layer = 0; layer < n_layers_; ++layer) {
    for (int head = 0; head < n_kv_heads_; ++head) changed |= map_pages(layer, head, n_slots(layer, head) + n);
  }
  if (changed) upload_page_table();
}

void SlotCache::note_slot(int layer, int kv_head, int slot) {
  std::int32_t& n = n_slots_host_[index(layer, kv_head)];
  n = std::max(n, slot + 1);
}

void SlotCache::set_slots(int layer, std::span<const std::int32_t> n_slots) {
  bool changed = false;
  for (int head = 0; head < n_kv_heads_; ++head) {
    n_slots_host_[index(layer, head)] = n_slots[head];
    changed |= map_pages(layer, head, n_slots[head]);
  }
  if (changed) upload_page_table();
  const at::Tensor host = at::tensor(at::ArrayRef<std::int32_t>(n_slots.data(), n_slots.size()), at::kInt);
  n_slots_[layer].copy_(host, /*non_blocking=*/true);  // pageable memory is staged before the call returns
}

void SlotCache::fill_slots(int n) {
  reserve(n);
  std::fill(n_slots_host_.begin(), n_slots_host_.end(), n);
  n_slots_.fill_(n);
}

void SlotCache::fill_slots(int layer, int n) {
  reserve(layer, n);
  std::fill_n(n_slots_host_.begin() + static_cast<std::ptrdiff_t>(index(layer, 0)), n_kv_heads_, n);
  n_slots_[layer].fill_(n);
}

std::int64_t SlotCache::page_stride(int layer, int n) const {
  const std::int32_t* table = page_table_host_.data_ptr<std::int32_t>() + index(layer, 0) * max_pages_;
  const std::int64_t stride = n_kv_heads_ == 1 ? std::max(1, max_pages_) : table[max_pages_] - table[0];
  for (int head = 0; head < n_kv_heads_; ++head) {
    if (pages_of_head_[index(layer, head)] < pages_for(n)) return 0;
    for (int page = 0; page < pages_for(n); ++page) {
      if (table[head * max_pages_ + page] != table[0] + head * stride + page) return 0;
    }
  }
  return stride;
}

SlotCache::Rows SlotCache::rows(int layer, int n) const {
  if (const std::int64_t pages = page_stride(layer, n); pages > 0) {
    const std::int64_t row = head_dim_, page = kPageSize * row, first = pool_row(index(layer, 0), 0) * row;
    const auto view = [&](const at::Tensor& pool) {
      return pool.as_strided({n_kv_heads_, n, head_dim_}, {pages * page, row, 1}, first);
    };
    return {view(k_pool_), view(v_pool_)};
  }
  const std::int64_t pages = pages_for(n);  // page 0 stands for those that a head does not have
  const at::Tensor wanted = page_table_[layer].narrow(1, 0, pages).reshape({-1});
  const auto copy = [&](const at::Tensor& pool) {
    return pool.index_select(0, wanted).view({n_kv_heads_, pages * kPageSize, head_dim_}).narrow(1, 0, n);
  };
  return {copy(k_pool_), copy(v_pool_)};
}

SlotCache::Rows SlotCache::rows_of(std::span<const int> layers, std::span<const std::int32_t> slots) const {
  const auto n = static_cast<std::int64_t>(layers.size());
  at::Tensor index_host = at::empty({n, n_kv_heads_}, at::kLong);
  std::int64_t* row = index_host.data_ptr<std::int64_t>();
  for (const int layer : layers)
    for (int head = 0; head < n_kv_heads_; ++head) *row++ = pool_row(index(layer, head), slots[index(layer, head)]);
  const at::Tensor wanted = index_host.view({-1}).to(k_pool_.device());
  const auto copy = [&](const at::Tensor& pool) {
    return pool.view({-1, head_dim_}).index_select(0, wanted).view({n, n_kv_heads_, head_dim_});
  };
  return {copy(k_pool_), copy(v_pool_)};
}

SlotCache::Rows SlotCache::rows_in(const at::Tensor& layer, const at::Tensor& slot, bool with_values) const {
  const at::Tensor page = page_table_.index_select(0, layer).gather(2, slot.div(kPageSize, "floor"));
  const at::Tensor row = page.to(at::kLong).mul_(kPageSize).add_(slot.remainder(kPageSize)).view({-1});
  const auto copy = [&](const at::Tensor& pool) {
    return pool.view({-1, head_dim_}).index_select(0, row).view({-1, slot.size(2), head_dim_});
  };
  return {copy(k_pool_), with_values ? copy(v_pool_) : at::Tensor()};
}

SlotCache SlotCache::only(const std::vector<std::vector<std::int32_t>>& keep, int max_slots, bool reserve) const {
  SlotCache out(n_layers_, n_kv_heads_, head_dim_, max_slots, k_pool_.scalar_type(), k_pool_.device());
  if (reserve) out.reserve(max_slots);
  std::size_t n = 0;
  for (const auto& slots : keep) n += slots.size();
  // Rows of the pools, and cells of the arrays by slot, that go from here to there.
  at::Tensor moves_host = at::empty({4, static_cast<std::int64_t>(n)}, at::kLong);
  std::int64_t* moves = moves_host.data_ptr<std::int64_t>();
  std::size_t i = 0;
  for (std::size_t head = 0; head < keep.size(); ++head) {
    const int layer = static_cast<int>(head) / n_kv_heads_, kv_head = static_cast<int>(head) % n_kv_heads_;
    out.map_pages(layer, kv_head, static_cast<int>(keep[head].size()));
    out.n_slots_host_[head] = static_cast<std::int32_t>(keep[head].size());
    for (std::size_t to = 0; to < keep[head].size(); ++to, ++i) {
      moves[i] = pool_row(head, keep[head][to]);
      moves[n + i] = out.pool_row(head, static_cast<std::int32_t>(to));
      moves[2 * n + i] = static_cast<std::int64_t>(head) * max_pages_ * kPageSize + keep[head][to];
      moves[3 * n + i] = static_cast<std::int64_t>(head) * out.max_pages_ * kPageSize + static_cast<std::int64_t>(to);
    }
  }
  out.upload_page_table();
  const at::Tensor there = moves_host.to(k_pool_.device());
  const auto move = [&](const at::Tensor& from, const at::Tensor& to, int row) {
    to.index_copy_(0, there[row + 1], from.index_select(0, there[row]));
  };
  move(k_pool_.view({-1, head_dim_}), out.k_pool_.view({-1, head_dim_}), 0);
  move(v_pool_.view({-1, head_dim_}), out.v_pool_.view({-1, head_dim_}), 0);
  move(slot_position_.view({-1}), out.slot_position_.view({-1}), 2);
  move(slot_priority_.view({-1}), out.slot_priority_.view({-1}), 2);
  const at::Tensor counts = at::tensor(at::ArrayRef<std::int32_t>(out.n_slots_host_), at::kInt);
  out.n_slots_.view({-1}).copy_(counts);
  return out;
}

std::vector<SlotCache::Move> SlotCache::remove(std::vector<std::vector<std::int32_t>> slots) {
  std::vector<Move> moves;
  std::vector<std::int64_t> rows_from, rows_to, cells_from, cells_to, vacated;
  const auto cell = [&](std::size_t head, std::int32_t slot) {
    return static_cast<std::int64_t>(head) * max_pages_ * kPageSize + slot;
  };
  for (std::size_t head = 0; head < slots.size(); ++head) {
    std::vector<std::int32_t>& gone = slots[head];
    if (gone.empty()) continue;
    std::sort(gone.begin(), gone.end());
    const std::int32_t before = n_slots_host_[head], after = before - static_cast<std::int32_t>(gone.size());
    auto hole = gone.begin();
    for (std::int32_t slot = after; slot < before; ++slot) {
      vacated.push_back(cell(head, slot));
      if (std::binary_search(gone.begin(), gone.end(), slot)) continue;
      moves.push_back({head, slot, *hole});
      rows_from.push_back(pool_row(head, slot)), rows_to.push_back(pool_row(head, *hole));
      cells_from.push_back(cell(head, slot)), cells_to.push_back(cell(head, *hole));
      ++hole;
    }
    n_slots_host_[head] = after;
    // Not the page of its next token: it would be asked for again at once.
    const std::int32_t* table = page_table_host_.data_ptr<std::int32_t>() + head * max_pages_;
    for (std::int32_t& pages = pages_of_head_[head]; pages > pages_for(after + 1);)
      free_pages_.push_back(table[--pages]);
  }
  // One piece for the device: the moves, the cells that are free now, and how many slots each head has.
  std::vector<std::int64_t> words;
  for (const auto* list : {&rows_from, &rows_to, &cells_from, &cells_to, &vacated})
    words.insert(words.end(), list->begin(), list->end());
  words.insert(words.end(), n_slots_host_.begin(), n_slots_host_.end());
  const at::Tensor there = at::tensor(at::ArrayRef<std::int64_t>(words), at::kLong)
                               .to(k_pool_.device(), /*non_blocking=*/true);  // pageable: staged before it returns
  const auto n = static_cast<std::int64_t>(moves.size()), n_vacated = static_cast<std::int64_t>(vacated.size());
  if (n > 0) {
    const auto move = [&](const at::Tensor& list, std::int64_t row) {
      list.index_copy_(0, there.narrow(0, (row + 1) * n, n), list.index_select(0, there.narrow(0, row * n, n)));
    };
    move(k_pool_.view({-1, head_dim_}), 0);
    move(v_pool_.view({-1, head_dim_}), 0);
    move(slot_position_.view({-1}), 2);
    move(slot_priority_.view({-1}), 2);
  }
  if (n_vacated > 0) {
    const at::Tensor cells = there.narrow(0, 4 * n, n_vacated);
    slot_position_.view({-1}).index_fill_(0, cells, -1);
    slot_priority_.view({-1}).index_fill_(0, cells, 0);  // the next token adds up its own
  }
  n_slots_.view({-1}).copy_(there.narrow(0, 4 * n + n_vacated, n_slots_.numel()));
  return moves;
}

std::int64_t SlotCache::pool_row(std::size_t head, std::int32_t slot) const {
  const std::int32_t* table = page_table_host_.data_ptr<std::int32_t>() + head * max_pages_;
  return static_cast<std::int64_t>(table[slot / kPageSize]) * kPageSize + slot % kPageSize;
}

std::vector<std::int32_t> SlotCache::positions(int layer, int kv_head) const {
  const at::Tensor row = slot_position_[layer][kv_head].cpu();
  const std::int32_t* data = row.data_ptr<std::int32_t>();
  std::vector<std::int32_t> out;
  std::copy_if(data, data + n_slots(layer, kv_head), std::back_inserter(out), [](std::int32_t p) { return p >= 0; });
  std::sort(out.begin(), out.end());
  return out;
}

std::int64_t SlotCache::bytes() const {
  const std::int64_t pages = pages_used_ - static_cast<std::int64_t>(free_pages_.size());
  return 2 * pages * kPageSize * head_dim_ * static_cast<std::int64_t>(k_pool_.element_size());
}

std::int64_t SlotCache::pool_bytes() const { return static_cast<std::int64_t>(k_pool_.nbytes() + v_pool_.nbytes()); }

void SlotCache::poison_free_rows() {
  const c10::InferenceMode no_gradients;  // as the pools were made
  at::Tensor used = at::zeros({k_pool_.size(0), kPageSize}, at::kBool);
  bool* rows = used.data_ptr<bool>();
  const at::Tensor positions = slot_position_.cpu();
  for (std::size_t head = 0; head < n_slots_host_.size(); ++head) {
    const std::int32_t* position = positions.data_ptr<std::int32_t>() + head * max_pages_ * kPageSize;
    for (int slot = 0; slot < n_slots_host_[head]; ++slot) {
      if (position[slot] >= 0) rows[pool_row(head, slot)] = true;
    }
  }
  const at::Tensor free = used.logical_not().unsqueeze(-1).to(k_pool_.device());
  k_pool_.masked_fill_(free, std::numeric_limits<float>::quiet_NaN());
  v_pool_.masked_fill_(free, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace kvscope::engine
