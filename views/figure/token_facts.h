#pragma once
// What the views say of one token: the numbers, apart from how they are drawn.

#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/read_metrics.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {

/// One head as one query sees it. Looking the geometry up costs more than the answer, so it is kept here.
struct HeadAtQuery {
  const RunRecord* run;
  RetentionGeometry geometry;
  int layer, kv_head;
  std::int32_t q;
  HeadAtQuery(const RunRecord& run, int layer, int kv_head, std::int32_t q)
      : run(&run), geometry(run.geometry(layer, kv_head)), layer(layer), kv_head(kv_head), q(q) {}

  /// What is drawn: of a query that selects pages, unread tokens apart.
  TokenState state(std::int32_t t) const;
  /// The same, whatever the query reads of it.
  TokenState cache_state(std::int32_t t) const;
  /// Whether a choice of the policy put it where it is: sinks and the window are kept by rule.
  bool chosen(std::int32_t t) const;
  /// What this query reads.
  const HeadReads& reads() const;
  /// The policy's choice on token t against the oracle's.
  Verdict verdict(std::int32_t t) const;

 private:
  mutable std::shared_ptr<const HeadReads> reads_;
  mutable std::shared_ptr<const OracleSet> oracle_;  // made when first asked: it costs a look at every token
};
/// Raw score; NaN where none was made.
float score_at(const RunRecord& run, int layer, int kv_head, std::int32_t t);
/// "0.31", "not computed yet", "this policy uses no scores".
/// The run's policy decides by scores of the tokens.
bool makes_scores(const RunRecord& run);
std::string score_text(const RunRecord& run, int layer, int kv_head, std::int32_t t);
/// Future mass, or NaN.
float mass_at(const RunRecord& run, int layer, int kv_head, std::int32_t t);

/// 2nd and 98th percentile of a head's scores: what the score colours span. {0, 1} if there is no score.
struct ScoreRange {
  float lo = 0, hi = 1;
};
ScoreRange score_range(const RunRecord& run, int layer, int kv_head);

/// `L3 H1 · token 812 "·Thus" · id 14636`.
std::string identity_line(const RunRecord& run, int layer, int kv_head, std::int32_t t);
/// "evicted at 2391", "kept to the end", "undecided: still in the window".
std::string life_line(const RunRecord& run, int layer, int kv_head, std::int32_t t);
/// "25 % > 16 % @ 981": the budgets that a run went through, or its name where they say nothing.
std::string policy_history(const RunRecord& run);

/// Why a run has no recall of its own, a sentence; empty where its future attention is known. A preview under another
/// window has none: of a token's attention the run recorded the mean from where its own window ended.
std::string why_no_recall(const RunRecord& run, bool is_preview);
/// As many layers and KV heads.
bool same_shape(const RunRecord& a, const RunRecord& b);

}  // namespace kvscope::views
