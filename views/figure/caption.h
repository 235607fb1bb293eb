#pragma once
// The sentences every caption draft has in common.

#include <span>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope::views {

/// "kvscope-tiny (6 layers x 4 KV heads); policy kvpop:budget=..., budget 512 tokens."
std::string describe_run(const RunRecord& run);
/// The same of several runs of one shape, as far as they have it in common: "92 to 113 tokens", "3 policies, the first ...".
std::string describe_runs(std::span<const RunRecord* const> runs);
/// " Own oracle, k = 56." of one run, at query q or, of a metric that is a mean over queries, up to it; of several " Each by its
/// own oracle."; empty for a metric that needs none, and before the oracle is known. Costs what the metric of all heads costs.
std::string describe_own_oracle(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q);
/// Said of every figure of a preview; empty for a measured one.
std::string describe_preview(bool preview);
/// The query position a request for `q` means: the last if q is -1 or beyond. Throws Error (bad input) for an empty
/// run.
std::int32_t resolve_query(const RunRecord& run, std::int32_t q);
/// " B is at its last query, 193." of each of A and B that has no query q; else empty.
std::string describe_ended(std::span<const RunRecord* const> a_and_b, std::int32_t q);
/// evict_at of a token, kUndecided where the row has not grown that far yet.
std::int32_t lifetime_of(const RunRecord& run, int layer, int kv_head, std::int32_t t);

}  // namespace kvscope::views
