#pragma once
// A span of the text and the runs that read it: which head still has it, in numbers and in a sentence.

#include <span>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/study/heads/span_loss.h"

namespace kvscope::views {

enum class HeadOrder : std::uint8_t { mass, layer };

struct LostFactOptions {
  int token = 0, n_tokens = 1;        // the span: its first token, and how many
  HeadOrder order = HeadOrder::mass;  // rows: the most mass lost first, or by layer
  int first = 0, count = 0;           // queries shown; count 0: all
  std::vector<std::string> names;     // of the runs; one without is "A", "B" ...
  std::vector<int> previews;          // which of the runs are previews
  bool operator==(const LostFactOptions&) const = default;
};
/// Of figures over several runs: names[run], or "A", "B" ... where it has none.
std::string run_name(std::span<const std::string> names, std::size_t run);
inline std::string run_name(const LostFactOptions& options, std::size_t run) { return run_name(options.names, run); }

/// One run's heads. rows: indices into loss.heads, from the top.
struct LostFactRun {
  SpanLoss loss;
  std::vector<int> rows;
};

/// Nothing of a run that goes on, or that has no oracle.
EvictionVerdicts verdicts_of(const RunRecord& run);
/// One of each run. verdicts: of each run, never null. Throws Error (bad input): no run, an empty one, a span that the first run does not have, runs whose tokens
/// in the span are others.
std::vector<LostFactRun> lost_fact_runs(std::span<const RunRecord* const> runs,
                                        std::span<const EvictionVerdicts* const> verdicts,
                                        const LostFactOptions& options);

/// "“48213” (5 tokens)", or "“4” (token 30)" of one.
std::string span_name(const RunRecord& run, const SpanLoss& loss);
/// "at the answer 12 of 90 heads still have all of it, 61 have none. Mass lost: 3.2. To keep it in every head would cost
/// 1.1 MiB."
std::string span_sentence(const RunRecord& run, const SpanLoss& loss);
/// The same for a line: "12 of 90 heads have all, 61 none; mass lost 3.2".
std::string span_summary(const RunRecord& run, const SpanLoss& loss);

}  // namespace kvscope::views
