#pragma once
// What a sweep's rows say together.

#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// Adds to a sweep's table, within rows of one item, chunk and seed (the same questions):
///
///     on_front, is_knee   1 or 0, of the least `cost` and the least NLL or the greatest accuracy (pareto.h)
///     series              number of the row's curve; NaN of the dense policy
///
/// and, of the curves, as arrays with the axes series and matched: matched_value, between neighbouring points of the curve at
/// each cost of `matched`; matched_difference, what it is more than the dense policy's. The dense policy, to which every curve
/// leads at density 1, is no point of any.
void add_derived(StudyTable& table, const std::string& cost, const std::vector<double>& matched);

/// Numbers of the rows that share item, chunk and seed, in the order in which they first come.
std::vector<std::vector<std::size_t>> rows_by_item(const StudyTable& table);

/// The column that says how good a row is: nll of a text, accuracy of a task.
const StudyColumn* value_column(const StudyTable& table, std::size_t row);

}  // namespace kvscope::app
