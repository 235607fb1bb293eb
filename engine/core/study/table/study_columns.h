#pragma once
// Studies beside each other: columns that follow from others, several tables as one, and a row found again in a newer table.

#include <span>
#include <string>
#include <utility>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// Adds what a policy's text says, where there is no column of that name: `method`, its name, and each numeric parameter
/// as a column ("streaming:window=60" gives window 60; 25% gives 0.25). Nothing without a column `policy` of texts.
void add_policy_columns(StudyTable& table);

/// One under another, NaN or "" where one has no such column; a text column `source` names where each point is from. Kind,
/// request and facts are the first's. Arrays of one table alone are kept, of several the probes of gates (gate_probe.h).
/// Throws Error (bad input) if a column is numbers in one and texts in another.
StudyTable join_studies(std::span<const std::pair<std::string, StudyTable>> tables);

/// The row of `now` with the source and step that `row` has in `before`, a table of the same files read earlier; -1: none has.
int same_step(const StudyTable& before, int row, const StudyTable& now);

}  // namespace kvscope
