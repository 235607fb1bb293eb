#pragma once
// Who lost a span of tokens: which heads still have it at each query, what its evictions lost, and what keeping it would have
// cost.

#include <cstdint>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/oracle.h"

namespace kvscope {

/// [n_layers * n_kv_heads][n_tokens], as eviction_verdicts() has them; empty: no verdict is known.
using EvictionVerdicts = std::vector<std::vector<VerdictOfEviction>>;

/// One token that one head evicted before the run's last query.
struct Eviction {
  std::int32_t t = 0;
  int layer = 0, kv_head = 0;
  std::int32_t q = 0;  // first query that cannot see the token
  double mass = 0;     // its future_mass; 0 if none was recorded
  EvictionVerdict verdict = EvictionVerdict::unknown;
};

/// One head and the span.
struct HeadSpan {
  int layer = 0, kv_head = 0;
  std::vector<Eviction> evictions;  // of the span's tokens, by query, then by token
  std::int32_t held_at_answer = 0, held_at_end = 0;
  std::int32_t gone_at = kNever;  // the query at which the last token of the whole span left; kNever: none did
  double mass_lost = 0;           // the sum over `evictions`
  int judged = 0, wrong = 0;      // of `evictions`: with a verdict; those that the oracle would not have made
  /// What keeping the span would have cost: the sum over `evictions` of the queries from the eviction to the end.
  std::int64_t token_queries = 0;
};

/// Heads whose layer attends to its window alone by the model are left out: no policy decides there.
struct SpanLoss {
  std::int32_t first = 0, last = -1;  // the span's tokens that the run has read, both included; last < first: none
  /// The query at which the answer needs the span: the answer's first one, or the run's last one if there is no answer or
  /// the span is not read by then.
  std::int32_t answer = -1;
  std::int32_t read_at_answer = 0;  // tokens of the span that are read by that query
  std::vector<HeadSpan> heads;      // by layer, then by head
  int n_all = 0, n_none = 0;        // heads that have all of these, or none, at the answer
  double mass_lost = 0;             // over all heads
  int judged = 0, wrong = 0;
  std::int64_t evicted = 0, token_queries = 0;
  double bytes =
      0;  // of the evicted tokens, which the caches would hold at the end; 0 if the run does not record the sizes

  int n_tokens() const { return last - first + 1; }
};

/// Tokens [first, last] of the run, as far as it has read them.
SpanLoss span_loss(const RunRecord& run, std::int32_t first, std::int32_t last, const EvictionVerdicts& verdicts);

/// How many tokens of [first, last] the head has at each query, [queries()]: read by then and not yet evicted.
std::vector<std::int32_t> span_held(const RunRecord& run, int layer, int kv_head, std::int32_t first,
                                    std::int32_t last);

/// The `n` evictions of the run that the oracle would not have made and that lost the most future mass, the most first; of
/// equal ones the oldest token, then the first head.
std::vector<Eviction> worst_misses(const RunRecord& run, const EvictionVerdicts& verdicts, int n);

}  // namespace kvscope
