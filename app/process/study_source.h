#pragma once
// Studies by their files' names: what sweep and hybrid write, and tables of other commands.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/study_table.h"

namespace kvscope::app {

/// .csv, .json and .jsonl as text (engine/core/study/text_table.h), all else as a study in HDF5, in a child process. One under
/// another, with the columns that add_policy_columns() finds and `source`, the name without its ending
/// (and without "_loss"). Throws Error (bad input) as the readers do. `program` is the child's; empty: read here.
StudyTable read_studies(const std::vector<std::string>& paths, const std::string& program = "/proc/self/exe");

/// read_studies() of one file; nothing where it is neither of these, a trace for example. A damaged study is still an Error.
std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program = "/proc/self/exe");

}  // namespace kvscope::app
