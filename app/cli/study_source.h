#pragma once
// Studies by their files' names: what sweep and hybrid write, and tables of other commands.

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/study/study_table.h"

namespace kvscope::app {

/// .csv, .json and .jsonl as text (engine/core/study/text_table.h), all else as a study in HDF5, in a child process. One under
/// another, with the columns that add_policy_columns() finds and `source`, the name without its ending
/// (and without "_loss"). Throws Error (bad
/// input) as the readers do.
StudyTable read_studies(const std::vector<std::string>& paths);

}  // namespace kvscope::app
