#pragma once
// Two runs as rows of a table: what was asked of each, where they differ, and what came of it.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

struct ComparisonRow {
  std::string name;        // "density"
  std::string a, b;        // as text; "–" where there is none
  std::string difference;  // B - A of numbers; empty for words
  std::string definition;  // what the numbers are; empty for words
  bool differs() const { return a != b; }
};
struct ComparisonTable {
  std::vector<ComparisonRow> asked;    // model, policy and its parameters, sampling: what both share too
  std::vector<ComparisonRow> came_of;  // tokens, likelihood, what is kept, recall, output error, time
  std::string tokens;                  // "same tokens", "tokens part at 120", in words
};

/// At most at query q of both. What one run is held against is one oracle (CommonOracle). A preview has no likelihood,
/// output error or time of its own. Throws Error (bad input) for models of different shape or vocabulary.
ComparisonTable comparison_table(const RunRecord& a, const RunRecord& b, std::int32_t q, bool b_is_preview = false);

}  // namespace kvscope
