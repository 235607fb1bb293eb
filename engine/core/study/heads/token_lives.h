#pragma once
// The life of each token in one head's cache: read, in the window, kept outside it, evicted, and what the eviction lost.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/study/heads/span_loss.h"

namespace kvscope {

/// One token that the run has read. It enters at query t.
struct TokenLife {
  std::int32_t t = 0;
  std::int32_t left_window = 0;  // first query whose window is past it, at most `gone`; of a sink `gone`
  std::int32_t gone = 0;         // first query that cannot see it; of one that is there to the end queries()
  bool sink = false, evicted = false;
  EvictionVerdict verdict = EvictionVerdict::unknown;
  double cost = 0;  // future mass that the eviction lost, as Eviction::mass has it; 0: not evicted, or not recorded

  std::int32_t length() const { return gone - t; }  // queries that saw it
};

enum class LifeOrder : std::uint8_t {
  position,
  cost,  // the most first
  life   // the longest first
};

/// eviction_verdicts() of one head; empty while the run goes on, without an oracle, and where no policy decides.
std::vector<VerdictOfEviction> head_verdicts(const RunRecord& run, int layer, int kv_head);
/// Whether an eviction of this run has a cost that is known.
bool has_cost(const RunRecord& run);

/// Tokens [first, last] that the run has read, in that order; of equal ones the oldest first. verdicts: head_verdicts().
std::vector<TokenLife> token_lives(const RunRecord& run, int layer, int kv_head, std::int32_t first, std::int32_t last,
                                   const std::vector<VerdictOfEviction>& verdicts, LifeOrder order);

struct LifeCounts {
  int tokens = 0, evicted = 0, wrong = 0, right = 0;  // evicted ones without a verdict are the rest
  double cost = 0;                                    // the sum
};
LifeCounts count_lives(std::span<const TokenLife> lives);

}  // namespace kvscope
