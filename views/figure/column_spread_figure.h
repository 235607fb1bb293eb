#pragma once
// Many columns of a table as one distribution against x: what each head keeps while its gate is trained (SP-KV Fig 5).

#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct ColumnSpreadOptions {
  std::string x = "step";
  std::string prefix = "open_";    // the columns of numbers whose names begin so
  std::vector<std::string> where;  // rows that are drawn, see StudyPick
  bool each = true;                // a thin line for every column
  bool named = true;               // dashed: those with the greatest, least and middle value at the end
  bool log_x = false;
  double lo = 0, hi = 1;  // of y
  std::string x_label, y_label;
  bool operator==(const ColumnSpreadOptions&) const = default;
};

/// Of the columns' values at one x, by linear interpolation between order statistics; NaN is not counted.
struct SpreadPoint {
  double x = 0, p10 = 0, q1 = 0, median = 0, q3 = 0, p90 = 0;
  int n = 0;
};
/// x ascending. Throws Error (bad input): no such columns, no row.
std::vector<SpreadPoint> column_spread(const StudyTable& study, const ColumnSpreadOptions& options);

/// Panels: "spread" (continuous). Data: series ("p10", "q1", "median", "q3", "p90", then the columns' names), x, value.
/// Throws like column_spread().
BuiltFigure column_spread_figure(const StudyTable& study, const ColumnSpreadOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
