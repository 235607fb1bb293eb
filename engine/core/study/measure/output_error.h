#pragma once
// What eviction did to the output of attention, from the norms that a run recorded (OutputError in run_record.h).

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope {

/// error(l, g, q) = |D_g| / |o W_o| of every head at query q: the share of the layer's whole attention output by which
/// the head's part is off. [n_layers][n_kv_heads]; NaN where nothing before q is evicted or unread, and for a run whose
/// output error was not measured.
HeadMap output_error_at(const RunRecord& run, std::int32_t q);

/// Over queries, exact as these are kept as norms: sqrt(sum |d|^2 / sum |o|^2) over those for which something is evicted
/// or unread. NaN where there is none.
struct OutputErrorMean {
  double value = 0;
  int n_queries = 0;
};

/// The mean of every head over queries 0 ... q, and over how many each one goes, [n_layers * n_kv_heads].
struct OutputErrorMap {
  HeadMap map;
  std::vector<int> n_queries;
};
OutputErrorMap output_error_map(const RunRecord& run, std::int32_t q);

/// error(l, q) = |D| / |o W_o|, D the sum over the layer's heads, of every query, [n_queries], and its mean. Empty if it
/// was not measured.
struct OutputErrorCurve {
  std::vector<float> values;
  OutputErrorMean mean;
};
OutputErrorCurve output_error_curve(const RunRecord& run, int layer);

/// Mean over the layers of output_error_curve().mean; NaN if it was not measured or nothing was lost.
double mean_output_error(const RunRecord& run);

/// Mean of a head's read_mass or best_read_mass over the queries up to q that read pages; NaN where there is none.
HeadMap read_mass_map(const RunRecord& run, const HeadSeries<float>& of_reads, std::int32_t q);

/// Over how many queries the means up to q go: "Means over 12 to 84 queries of 14 heads; 2 heads lost nothing."
std::string output_error_note(const RunRecord& run, std::int32_t q);

/// Empty, or a sentence: why a run under this policy cannot be measured. One that both evicts and reads pages cannot, as
/// pages are recorded by slot.
std::string why_not_measurable(const PolicySpec& spec);

/// Throws Error (usage) for such a policy.
void check_measurable(const PolicySpec& spec);

}  // namespace kvscope
