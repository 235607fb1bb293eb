#pragma once
// What a study has measured: a table with one row for each point (a policy with its parameters, a selection of heads), and
// arrays beside it (a number for each layer and head). Sweeps, hybrid studies, evaluations, benchmarks and trainings write it,
// figures, the window and tables read it. In files: engine/core/trace/study_file.h.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// A column of the table: numbers or texts, one for each point.
///
/// Names are lower case words with underscores. A 95 % interval of column `x` stands in `x_low` and `x_high`, its standard
/// error in `x_se`, how many it is the mean of in `x_n`; readers find them by these names.
struct StudyColumn {
  std::string name;     // "nll"
  std::string units;    // "nats/token"; "" of pure numbers and texts
  std::string meaning;  // one line: what it is, over what it was averaged
  bool is_text = false;
  std::vector<double> numbers = {};     // unless is_text; NaN: not measured, or undefined
  std::vector<std::string> texts = {};  // of is_text

  std::size_t size() const { return is_text ? texts.size() : numbers.size(); }
};

/// Numbers over other axes than the points', or over more: density by [text, layer, kv_head].
struct StudyArray {
  std::string name, units, meaning;
  std::vector<std::string> axes = {};    // outermost first; "point" is the table's row
  std::vector<std::int64_t> shape = {};  // as many as axes; axes of one name have one length in all arrays
  std::vector<double> values = {};       // row-major
  bool is_float32 = false;               // all values are; a file has them so
};

/// StudyTable::kind. A training's study is its curve, a row a logged step.
inline constexpr std::string_view kSweepStudy = "sweep", kHybridStudy = "hybrid", kEvalStudy = "eval",
                                  kBenchStudy = "bench", kTrainingStudy = "training";

struct StudyTable {
  std::string kind;     // one of these
  std::string request;  // JSON: what was asked for; with it the study is made again
  std::string facts;    // JSON: program, model, files with hashes, device, number format, dates
  std::vector<StudyColumn> columns = {};
  std::vector<StudyArray> arrays = {};

  std::size_t n_points() const { return columns.empty() ? 0 : columns.front().size(); }
  /// Null if there is none of that name.
  const StudyColumn* column(std::string_view name) const;
  const StudyArray* array(std::string_view name) const;
  /// Throw Error (bad input) that lists the names there are; `file` names the source.
  const std::vector<double>& numbers(std::string_view name, const std::string& file) const;
  const std::vector<std::string>& texts(std::string_view name, const std::string& file) const;
};

/// Throws Error (bad input) unless all columns have one length, names are unique and well formed, arrays have as many
/// values as their shape says and axes of one name one length, and request and facts are JSON objects.
void check_study(const StudyTable& table, const std::string& file);

/// Equal to the bit, NaN equal to NaN.
bool same_study(const StudyTable& a, const StudyTable& b);

/// A heading of names, then one line a point; NaN is an empty cell, texts are quoted where they need it.
std::string study_csv(const StudyTable& table);

}  // namespace kvscope
