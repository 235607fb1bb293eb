#pragma once
// Studies by their files' names: what sweep and hybrid write, and tables of other commands.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// .csv, .json and .jsonl as text (engine/core/study/table/text_table.h), a folder as the curves of the trainings in it, all else as a
/// study in HDF5, in a child process. One under another, with the columns that add_policy_columns() finds and `source`, the name
/// without its ending (and without "_loss"). Of a curve that is being written the last line is left out until it is whole.
/// Throws Error (bad input) as the readers do. `program` is the child's; empty: read here.
StudyTable read_studies(const std::vector<std::string>& paths, const std::string& program = "/proc/self/exe");

/// NAME_loss.csv of the folder and of the folders in it, by name. Touches the disk; nothing where that fails.
std::vector<std::string> training_logs(const std::filesystem::path& folder);
/// Another text whenever a file of the study has another size or time; empty: it is not there.
std::string study_version(const std::string& path);

/// read_studies() of one file; nothing where it is neither of these, a trace for example. A damaged study is still an Error.
std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program = "/proc/self/exe");

}  // namespace kvscope::app
