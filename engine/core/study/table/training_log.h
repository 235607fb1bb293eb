#pragma once
// The curve of a training, NAME_loss.csv of `kvscope train`, as a table of one row a logged step.

#include <string_view>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// StudyTable::kind of such a table, and how its file's name ends.
inline constexpr std::string_view kTrainingLog = "training", kTrainingLogEnding = "_loss.csv";

/// A table with the columns step, tokens, learning_rate, tokens_per_s and seconds is the curve of a training: it is called so,
/// and its columns get their units and meanings. Any other stays as it is.
void name_training_log(StudyTable& table);

/// The row of `now` with the source and step that `row` has in `before`, a table of the same files read earlier; -1: none has.
int same_step(const StudyTable& before, int row, const StudyTable& now);

}  // namespace kvscope
