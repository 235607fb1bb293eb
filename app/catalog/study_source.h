#pragma once
// Studies by their files' names: what sweep, hybrid, eval, bench and train write.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// How the name of a training's curve ends: OUT/NAME_loss.h5.
inline constexpr std::string_view kCurveEnding = "_loss.h5";

/// A study in HDF5, read in a child process, or a folder as the curves of the trainings in it. One under another, with the columns
/// that add_policy_columns() finds and `source`, the name without its ending (and without "_loss").
/// Throws Error (bad input) as the readers do, and for a table in text. `program` is the child's; empty: read here.
StudyTable read_studies(const std::vector<std::string>& paths, const std::string& program = "/proc/self/exe");

/// NAME_loss.h5 of the folder and of the folders in it, by name. Touches the disk; nothing where that fails.
std::vector<std::string> training_curves(const std::filesystem::path& folder);
/// Another text whenever a file of the study has another size or time; empty: it is not there.
std::string study_version(const std::string& path);

/// read_studies() of one file; nothing where it is neither of these, a trace for example. A damaged study is still an Error.
std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program = "/proc/self/exe");

}  // namespace kvscope::app
