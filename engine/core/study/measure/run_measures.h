#pragma once
// What came of one run, as the numbers by which runs are listed, sorted and drawn against each other. Each is defined once, in
// the function that its line in measure_run() calls.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/oracle.h"

namespace kvscope {

enum class RunMeasure : std::uint8_t {
  nll_answer,
  nll_text,
  above_chance,
  cache_size,
  cache_size_end,
  cache_bytes,
  ms_per_token,
  tokens
};
inline constexpr std::size_t kRunMeasures = 8;

struct RunMeasureInfo {
  RunMeasure measure;
  std::string_view name;   // "nll_answer"
  std::string_view title;  // "NLL of the answer"
  std::string_view brief;  // "NLL answer": where a title has little room
  std::string_view units;  // "nats/token"; empty of a share
  std::string_view definition;
};
/// In the order of the enumeration.
std::span<const RunMeasureInfo> run_measures();
const RunMeasureInfo& info_of(RunMeasure measure);
/// "NLL of the answer (nats/token)".
std::string label_of(RunMeasure measure);

struct RunMeasures {
  std::array<double, kRunMeasures> values{};  // NaN: see why_not_measured()
  OracleMean oracle;                          // of the run's own oracle, over the whole run
  double cached = 0;  // tokens in the cache of a head after the last query, mean over heads; NaN without any
  double operator[](RunMeasure measure) const { return values[static_cast<std::size_t>(measure)]; }
};
/// Looks at every token of every head.
RunMeasures measure_run(const RunRecord& run);
/// Why the run has no value of it, a sentence.
std::string why_not_measured(const RunRecord& run, RunMeasure measure);

/// Of decoding, with all recording on; NaN where nothing was decoded.
double ms_per_token(const RunRecord& run);

}  // namespace kvscope
