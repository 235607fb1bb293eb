#pragma once
// What a query reads of what its head keeps, under a policy that selects pages (Quest).

#include <span>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// One query of one head. A slot is a position as long as the head has evicted nothing. Refers to the run.
class HeadReads {
 public:
  HeadReads(const RunRecord& run, int layer, int kv_head, std::int32_t q);
  /// Whether the query chose pages: else it read all that its head keeps, as dense layers and the prompt do.
  bool selects() const { return pages_ != nullptr; }
  /// Whether it can be said of each token: not where slots were used again.
  bool tells_tokens() const { return selects() && slots_are_positions_; }
  /// Of a token that is kept. True where nothing else is known.
  bool reads(std::int32_t t) const;
  /// Tokens kept at q, and how many of them were read: where slots are no positions, those of the pages, at most all.
  int n_kept() const { return n_kept_; }
  int n_read() const { return n_read_; }
  /// n_read / n_kept; NaN if nothing is kept or the run recorded no reads at all.
  double share() const;

 private:
  const std::vector<std::int32_t>* pages_ = nullptr;
  bool slots_are_positions_ = true, run_selects_ = false;
  int page_size_ = 0, n_kept_ = 0, n_read_ = 0;
};

}  // namespace kvscope
