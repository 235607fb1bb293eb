#pragma once
// The window's list of runs, as a view sees it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/run_measures.h"

namespace kvscope::views {

/// How the table of runs is looked at. Part of the selection: plain data.
struct RunTableLook {
  std::string sort;  // name of a measure, or "run"; empty: as they came
  bool descending = false;
  RunMeasure x = RunMeasure::cache_size, y = RunMeasure::nll_answer;  // of the chart
  bool operator==(const RunTableLook&) const = default;
};

struct ListedRun {
  int id = 0;
  std::shared_ptr<const RunRecord> run;  // never null
  std::uint64_t revision = 0;
  std::string title, hint;  // what the list calls it, and what a mark in that means; an empty hint: it has none
};
struct ListedRuns {
  std::shared_ptr<const std::vector<ListedRun>> all;  // never null; ids ascending
  int a = 0, b = 0;                                   // ids; 0: none
  /// Null while they are not known: they are counted from then on. Valid until the next call that changes the session.
  std::function<const RunMeasures*(int id)> measures;
  std::function<void(int a, int b)> show;  // b 0: none
  std::function<void(int id)> choose;      // into the set of runs, or out of it
};

}  // namespace kvscope::views
