#pragma once
// Bars that are a sum of columns, "attention_ms+rest_ms": the first part in full colour at the bottom, the rest of it pale.

#include <string>
#include <vector>

#include "views/figure/plot.h"
#include "views/figure/study_series.h"

namespace kvscope::views {

/// "attention_ms+rest_ms" -> its columns; of another name that alone.
std::vector<std::string> sum_parts(const std::string& name);

/// The study with a column for each sum among `names`, of the first part's unit: NaN where a part is. A part that is not there
/// or of texts leaves the sum out.
StudyTable with_sums(const StudyTable& study, const std::vector<std::string>& names);

/// What of a bar is its first part, by the point's series and category in `parts`, the panel of that column; NaN if none is there.
double first_part(const StudyPanel& parts, const std::string& series, const StudyPoint& point);

/// The upper part of a stacked bar.
void draw_pale_part(FigureBuilder& b, Box box);

/// "attention", "KV cache", ...: a column's part as the legend has it.
std::string part_label(const std::string& column);

}  // namespace kvscope::views
