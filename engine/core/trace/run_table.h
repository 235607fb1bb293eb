#pragma once
// Which member of a RunRecord stands in which dataset, each said once. Encoding and decoding are visits of these.

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/core/record/run_fields.h"
#include "engine/core/record/run_record.h"
#include "engine/core/trace/trace_schema.h"

namespace kvscope::trace {

/// Stands in all of local_heads where all heads have the policy's one rule.
inline constexpr std::uint8_t kHeadsAlike = 255;

/// How a member is stored: whole numbers as int32, flags as a byte, the rest as it is.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, int>, std::int32_t,
                                  std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;

/// Calls visit(dataset, member) for each number of a run (const or not).
template <typename Run, typename Visit>
void visit_scalars(Run& run, Visit&& visit) {
  visit(Dataset::prompt_index, run.prompt_index);
  visit(Dataset::n_positions, run.n_positions);
  visit(Dataset::prompt_len, run.prompt_len);
  visit(Dataset::chunk, run.chunk);
  visit(Dataset::page_size, run.page_size);
  visit(Dataset::oracle_horizon, run.oracle_horizon);
  visit(Dataset::n_queries, run.n_queries);
  visit(Dataset::scorer_delay, run.scorer.delay);
  // The datasets of a struct's fields follow one another in the order of visit_fields().
  const auto visit_struct = [&](auto& fields, Dataset first) {
    int next = static_cast<int>(first);
    visit_fields(fields, [&](std::string_view, auto& member, auto) { visit(static_cast<Dataset>(next++), member); });
  };
  visit_struct(run.sampling, Dataset::temperature);
  visit_struct(run.timings, Dataset::load_s);
}

/// Calls visit(series, values, lengths, mark of what is not recorded).
template <typename Run, typename Visit>
void visit_series(Run& run, Visit&& visit) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  visit(run.evict_at, Dataset::evict_at, Dataset::evict_at_length, kUndecided);
  visit(run.scores, Dataset::score, Dataset::score_length, kNaN);
  visit(run.future_mass, Dataset::future_mass, Dataset::future_mass_length, kNaN);
  // Both follow one another in the order of visit_future().
  int next = static_cast<int>(Dataset::future_rms), length = static_cast<int>(Dataset::future_rms_length);
  visit_future(run.future, [&](const char*, auto& series) {
    visit(series, static_cast<Dataset>(next++), static_cast<Dataset>(length++), kNaN);
  });
}

/// Calls visit(series, values) for each series of the output error; all rows are output_error_queries long.
template <typename Error, typename Visit>
void visit_output_error(Error& error, Visit&& visit) {
  int next = static_cast<int>(Dataset::group_damage);  // in the order of visit_fields()
  visit_fields(error, [&](std::string_view, auto& series, auto) { visit(series, static_cast<Dataset>(next++)); });
}

/// Calls visit(dataset, member pointer) for each column of the contests, then of the reads (pages apart).
template <typename Visit>
void visit_contest_columns(Visit&& visit) {
  visit(Dataset::contest_q, &Contest::q);
  visit(Dataset::contest_layer, &Contest::layer);
  visit(Dataset::contest_kv_head, &Contest::kv_head);
  visit(Dataset::contest_newcomer, &Contest::newcomer);
  visit(Dataset::contest_boundary, &Contest::boundary);
  visit(Dataset::contest_newcomer_effective, &Contest::newcomer_effective);
  visit(Dataset::contest_boundary_effective, &Contest::boundary_effective);
  visit(Dataset::contest_evicted, &Contest::evicted);
}
/// Calls visit(dataset, member pointer, what stands there where all heads are alike) for each column of the heads' rules.
template <typename Visit>
void visit_head_columns(Visit&& visit) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  visit(Dataset::local_heads, &HeadRule::locality, kHeadsAlike);
  visit(Dataset::head_log_gamma, &HeadRule::log_gamma, kNaN);
  visit(Dataset::head_threshold, &HeadRule::threshold, kNaN);
  visit(Dataset::head_n_sink, &HeadRule::n_sink, std::int32_t{-1});
  visit(Dataset::head_window, &HeadRule::window, std::int32_t{-1});
  visit(Dataset::head_top_k, &HeadRule::top_k, std::int32_t{-1});
}
template <typename Visit>
void visit_read_columns(Visit&& visit) {
  visit(Dataset::read_q, &PageRead::q);
  visit(Dataset::read_layer, &PageRead::layer);
  visit(Dataset::read_kv_head, &PageRead::kv_head);
}

/// A text of a run. `set` may throw Error for one that it cannot read; null: the text follows from the rest of the run.
struct RunText {
  Dataset span;
  std::string (*get)(const RunRecord& run);
  void (*set)(RunRecord& run, std::string_view text);
  const char* expected;  // of what `set` refuses
};
/// In the order in which they stand in runs/text, kFirstText to kLastText.
extern const std::array<RunText, 14> kRunTexts;

}  // namespace kvscope::trace
