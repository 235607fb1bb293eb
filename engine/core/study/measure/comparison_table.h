#pragma once
// Two runs as rows of a table: what was asked of each, where they differ, and what came of it.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

struct ComparisonRow {
  std::string name;        // "density", "oracle recall"
  std::string a, b;        // as text; "–" where there is none
  std::string difference;  // B - A of numbers; empty for words
  std::string definition;  // what the numbers are; empty for words
  std::string label{};     // the name with what it goes by: "recall (shared oracle, k = 68)"; empty: the name will do
  const std::string& shown_name() const { return label.empty() ? name : label; }
  bool differs() const { return a != b; }
};
struct ComparisonTable {
  std::vector<ComparisonRow> asked;    // model, policy and its parameters, sampling: what both share too
  std::vector<ComparisonRow> came_of;  // tokens, likelihood, what is kept, recall, output error, time
  std::string tokens;                  // "same tokens", "tokens part at 120", in words
};

/// At most at query q of both. Of recall there are two kinds, and the labels tell them apart: that of the whole run by its own
/// oracle, the number that the run has everywhere, and that up to the query by one oracle for both (CommonOracle), in which
/// above chance comes first, since recall alone rises with the budget. A preview has no likelihood, output error or time of
/// its own. Throws Error (bad input) for models of different shape or vocabulary.
ComparisonTable comparison_table(const RunRecord& a, const RunRecord& b, std::int32_t q, bool b_is_preview = false);

}  // namespace kvscope
