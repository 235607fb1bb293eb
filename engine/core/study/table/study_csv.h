#pragma once
// A table that a person wrote down, as a study: what study_csv() writes, read.

#include <string>
#include <string_view>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// RFC 4180: a heading of names, then a line a point. A column whose cells are all numbers or empty (NaN) is one of numbers.
/// Throws Error (bad input) that names `file` and the line: a line of another length, a quote that does not end, no point, and
/// what check_study() refuses.
StudyTable parse_study_csv(std::string_view text, const std::string& file);

}  // namespace kvscope
