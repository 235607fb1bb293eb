#include "engine/core/study/measure/read_metrics.h"

#include <algorithm>
#include <limits>

namespace kvscope {
namespace {

const PageRead* find_read(const RunRecord& run, int layer, int kv_head, std::int32_t q) {
  auto read = std::ranges::lower_bound(run.reads, q, {}, &PageRead::q);
  for (; read != run.reads.end() && read->q == q; ++read) {
    if (read->layer == layer && read->kv_head == kv_head) return &*read;
  }
  return nullptr;
}

}  // namespace

HeadReads::HeadReads(const RunRecord& run, int layer, int kv_head, std::int32_t q)
    : run_selects_(!run.reads.empty()), page_size_(run.page_size) {
  if (run.reads.empty() || run.evict_at.empty()) return;
  if (const PageRead* read = find_read(run, layer, kv_head, q)) pages_ = &read->pages;
  const std::vector<std::int32_t>& evict_at = run.evict_at.row(layer, kv_head);
  const auto n = std::min<std::int32_t>(q + 1, static_cast<std::int32_t>(evict_at.size()));
  for (std::int32_t t = 0; t < n; ++t) {
    if (visible(q, t, evict_at[t])) {
      ++n_kept_;
      n_read_ += reads(t);
    } else {
      slots_are_positions_ = false;
    }
  }
  if (selects() && !slots_are_positions_) n_read_ = std::min(n_kept_, static_cast<int>(pages_->size()) * page_size_);
}

bool HeadReads::reads(std::int32_t t) const {
  return !tells_tokens() || std::ranges::binary_search(*pages_, t / page_size_);
}

double HeadReads::share() const {
  if (!run_selects_ || n_kept_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(n_read_) / n_kept_;
}

}  // namespace kvscope
