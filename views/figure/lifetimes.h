#pragma once
// Which tokens of one head the lifetimes are of, in which order, and what is written of them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/study/heads/token_lives.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

struct LifetimesOptions {
  int layer = 0, kv_head = 0;
  LifeOrder order = LifeOrder::position;
  int token = 0, n_tokens = 0;  // the span: its first token, and how many; n_tokens 0: to the end
  int row = 0, n_rows = 0;      // rows shown, from the top of the order; n_rows 0: all
  int first = 0, count = 0;     // queries shown; count 0: all
  bool preview = false;
  bool operator==(const LifetimesOptions&) const = default;
};

/// Throws Error (bad input): a run that has read nothing, no such head, a span, rows or queries that the run does not have, an
/// order by cost without an oracle.
void check_lifetimes(const RunRecord& run, const LifetimesOptions& options);
/// The span's tokens in the order of the rows, those that are not shown too. verdicts: head_verdicts() of the head. Checks.
std::vector<TokenLife> lifetimes_of(const RunRecord& run, const std::vector<VerdictOfEviction>& verdicts,
                                    const LifetimesOptions& options);
/// Those of `n` rows that are shown.
TokenSpan lifetime_rows(const LifetimesOptions& options, std::size_t n);
TokenSpan lifetime_queries(const RunRecord& run, const LifetimesOptions& options);

/// "L3 H1, kvpop: 430 of 512 tokens evicted, 25 wrong, cost 3.2".
std::string lifetimes_summary(const RunRecord& run, const LifetimesOptions& options, std::span<const TokenLife> lives);
/// "wrong", "right", "none"; empty of a token that was not evicted.
std::string_view verdict_of_life(const TokenLife& life);

}  // namespace kvscope::views
