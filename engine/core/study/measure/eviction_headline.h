#pragma once
// What a run's evictions cost, in three findings that fit on one line.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope {

struct EvictionHeadline {
  std::int64_t judged = 0,
               wrong = 0;  // evictions with a verdict of the run's oracle, over all heads; those that are wrong
  double wrong_share() const { return static_cast<double>(wrong) / static_cast<double>(judged); }

  /// The head with the most wrong evictions; of equal ones the one that lost more future attention, then the first.
  struct Head {
    int layer = 0, kv_head = 0;
    std::int64_t judged = 0, wrong = 0;
  };
  std::optional<Head> worst;  // nothing if no eviction is wrong

  /// The token whose wrong evictions lost the most future attention: the sum of future_mass over the heads that evicted it
  /// wrongly. Of equal ones the oldest.
  struct Token {
    std::int32_t t = -1;
    double mass = 0;
    int n_heads = 0;             // that evicted it wrongly
    int layer = 0, kv_head = 0;  // the one of them with the greatest future_mass, of equal ones the first
  };
  std::optional<Token> costliest;  // nothing if no eviction is wrong
};

/// "19 %"; "< 1 %" where some are not none, "> 99 %" where most are not all.
std::string wrong_share_text(const EvictionHeadline& found);

/// Nothing for a run without an oracle, or in which no eviction has a verdict.
std::optional<EvictionHeadline> eviction_headline(const RunRecord& run);

}  // namespace kvscope
