#pragma once
// Counts over one or two lifetime maps. Every metric carries its definition, which is printed wherever it is shown.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

enum class Metric {
  density,
  evict_ratio,
  cache_share,
  recall,
  mean_recall,
  chance,
  above_chance,
  mass_kept,
  mass_kept_but_first,
  mass_recall,
  regret,
  output_error,
  read_mass,
  best_read_mass,
  read_share
};

struct MetricInfo {
  Metric metric;
  std::string_view name;        // "density"
  std::string_view title;       // "Density"
  std::string_view definition;  // formula in words, window in or out, which oracle
  bool needs_oracle;
  std::string_view base{};  // of a share: whether sinks count, where a list has metrics of both kinds
  bool is_share = true;     // 0 to 1 is its natural scale; else a scale is fitted to the values

  /// "Density (incl. sinks)".
  std::string title_with_base() const;
};
std::span<const MetricInfo> metric_list();
const MetricInfo* find_metric(std::string_view name);

/// [n_layers][n_kv_heads] flattened; NaN where the ratio is 0 / 0 or the data is missing.
struct HeadMap {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> values;
  /// What each value counts for in a mean over heads: of a mean over queries their number, so that the mean over heads is
  /// that over all (head, query) pairs. Empty: all the same.
  std::vector<double> weights{};
  double weight(std::size_t head) const { return weights.empty() ? 1 : weights[head]; }
  float at(int layer, int kv_head) const { return values[static_cast<std::size_t>(layer) * n_kv_heads + kv_head]; }
};

/// The metric of every head at query position q.
///
/// density(q)     = |kept, t <= q - window| / |{t <= q - window}|            sinks count, the window does not
/// evict_ratio(q) = 1 - |kept, n_sink <= t <= q - window| / |{n_sink <= t <= q - window}|
/// cache_share(q) = |kept, all| / (q + 1)                                    window and sinks count
/// read_share(q)  = |read| / |kept, all|                                     HeadReads
///
/// The others are those of the run's oracle (OracleSpec, Oracle) at the last query up to q that it has seen. While a run
/// goes on its tokens count as kept until somebody says otherwise; of queries that were not made there is no value. Before
/// its attention is here, recall is what the engine reported last (RunRecord::recall_so_far) at the queries from that one
/// on, and has no value at earlier ones.
///
/// output_error(q), read_mass(q) and best_read_mass(q) are the means of output_error.h over queries up to q.
HeadMap head_metric(const RunRecord& run, Metric metric, std::int32_t q);
/// Of one head alone, at the cost of one. Not for metrics that need an oracle: NaN.
float head_value(const RunRecord& run, Metric metric, int layer, int kv_head, std::int32_t q);
/// The same by another oracle over the run.
class Oracle;
HeadMap head_metric(const Oracle& oracle, const RunRecord& run, Metric metric, std::int32_t q);

/// token_state() as far as the run has got: undecided where it goes on and the query was not made yet. `geometry` is
/// run.geometry(), which costs more than the answer.
TokenState token_state(const RunRecord& run, const RetentionGeometry& geometry, std::int32_t q, std::int32_t t,
                       std::int32_t evict_at);

/// The normalised cache size (WG-KV): tokens held / tokens read, sinks and window included. The mean over heads and queries
/// of cache_share, without heads that the model itself makes local; NaN for a run without lifetimes or queries.
double mean_cache_size(const RunRecord& run);
/// Tokens in the cache of a head as query q, or the last one, sees it, sinks and window included: mean over heads. NaN without
/// lifetimes or queries.
double tokens_in_cache(const RunRecord& run, std::int32_t q);

/// What policies have evicted by the run's last query: tokens, mean over the heads that the model does not make local; the queries at which some head evicted one; and of
/// these the queries at which one was older than its head's window (q > t + window). The rest are tokens that a gate does not
/// admit, or that no policy keeps behind its window: they leave as the window passes them (q = t + window).
struct EvictionCount {
  double tokens = 0;
  int queries = 0, overflows = 0;
};
EvictionCount count_evictions(const RunRecord& run);

/// Whether the prompt's queries saw everything, as the policy has it: it decides nothing before the prompt's end. The whole
/// text of a run that was read under its policy from the first token on is its prompt too; from that tokens have left.
bool prompt_was_dense(const RunRecord& run);

/// Mean of the values that are not NaN, by their weights; NaN if there is none. Of mean_recall and above_chance it is what
/// mean_of(Oracle, q) says of the run.
double mean(const HeadMap& map);

/// Kept tokens of one head at each q, split in sinks, window and long-range: what the occupancy plot stacks.
struct Occupancy {
  std::vector<std::int32_t> sinks, window, long_range;  // [n_tokens]
};
Occupancy occupancy(const RunRecord& run, int layer, int kv_head);

/// "Why was this token evicted?" as a sentence: newcomer, boundary, both effective scores, oracle verdict. Also says so
/// when it is kept, a sink, in the window, dropped by a threshold, or the run has no contest for it.
std::string explain_token(const RunRecord& run, int layer, int kv_head, std::int32_t t, std::int32_t q);
/// The part of it that follows "was evicted at query 90", without the oracle: ": its score ...", ". No contest ...". For a
/// token that was evicted. contest: the head's at that query; null: none was recorded.
std::string eviction_reason(const RunRecord& run, int layer, int kv_head, std::int32_t t, const Contest* contest);

}  // namespace kvscope
