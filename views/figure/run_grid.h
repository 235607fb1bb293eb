#pragma once
// Runs of one text as small multiples: a row for each method, a column for caches of about the same size.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/study/measure/run_measures.h"

namespace kvscope::views {

/// What a run's small picture is of. heads: layers x KV heads, a metric at the query. tokens: layers x tokens, how many KV heads
/// keep each.
enum class RunGridCells : std::uint8_t { heads, tokens };

/// How the view looks at them. Part of the selection: plain data.
struct RunGridLook {
  RunGridCells cells = RunGridCells::heads;
  RunMeasure measure = RunMeasure::nll_answer;  // below each picture, after the cache size
  bool operator==(const RunGridLook&) const = default;
};
inline constexpr std::size_t kMostGridRuns = 32;

struct GridRun {
  std::string method;
  double cache_size;  // RunMeasure::cache_size; NaN is the last
};
struct RunGrid {
  struct Column {
    double lo, hi;  // cache sizes of its runs; NaN where they have none
  };
  std::vector<std::string> methods;  // of the rows, in the order of the runs
  std::vector<Column> columns;       // by rising cache size
  std::vector<int> runs;             // [rows * columns] which run; -1: none
  int at(std::size_t row, std::size_t column) const { return runs[row * columns.size() + column]; }
  struct Place {
    std::size_t row, column;
  };
  Place place_of(std::size_t run) const;
};
/// By rising cache size, each run goes into the last column, unless that begins at less than 0.87 of its size or has a run of its
/// method: then it begins another. So a column compares methods at about the same cost.
RunGrid run_grid(std::span<const GridRun> runs);

/// Why a run has no place beside `first`, a phrase: "another prompt". Empty: it has one.
std::string_view why_not_in_grid(const RunRecord& run, const RunRecord& first);

}  // namespace kvscope::views
