#pragma once
// Tables that other commands print, as a study: CSV (`eval --format csv`, the curves of `train`) and JSON lines
// (`bench --json`). Figures draw them like the studies of `sweep` and `hybrid`.

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// The names of columns become lower case words with underscores. A column whose cells are all numbers or empty is one of
/// numbers, NaN where empty.
///
/// CSV (RFC 4180) has its names in the first line. Of JSON, one object a line is a point; an object with "rows" has its
/// points there and is left out where other lines have them already, as in what `--json` ends with. Members that are
/// objects become columns NAME_KEY; one of min, median and max becomes NAME with NAME_low and NAME_high, its repetitions'
/// least and most. Of `eval`, low and high are the interval of accuracy.
///
/// Throws Error (bad input): no points, lines of different lengths, JSON that is no object, more than 1,048,576 points.
StudyTable read_text_table(std::string_view text, const std::string& file);

/// Whether a column has a name that our commands give to what they measure: any JSON object has columns, a study has these.
bool has_known_column(const StudyTable& table);

/// Adds what a policy's text says, where there is no column of that name: `method`, its name, and each numeric parameter
/// as a column ("streaming:window=60" gives window 60; 25% gives 0.25). Nothing without a column `policy` of texts.
void add_policy_columns(StudyTable& table);

/// One under another, NaN or "" where one has no such column; a text column `source` names where each point is from.
/// Throws Error (bad input) if a column is numbers in one and texts in another.
StudyTable join_tables(std::span<const std::pair<std::string, StudyTable>> tables);

}  // namespace kvscope
