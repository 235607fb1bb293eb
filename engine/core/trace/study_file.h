#pragma once
// Studies in HDF5 files: what `kvscope sweep` and `kvscope hybrid` write, for us and for h5py, xarray and pandas.
//
//     /                attributes: format "kvscope-study", version 1, kind, checksum (of all that follows)
//     /request, /facts scalar strings, JSON
//     /point/NAME      one dataset a column, [points]: float64, or strings of fixed length; attributes units, meaning
//     /array/NAME      one dataset an array, float64 or float32; attributes units, meaning, axes
//
// Both groups keep the order of the table (h5py lists them so). The same table gives the same bytes: no times, no names of
// machines but those that the facts say. A file of which any of this was changed is refused by its checksum.

#include <filesystem>
#include <optional>
#include <span>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// Put in place whole, or not at all. Throws Error as writable_target() does, and for a study that check_study() refuses, has
/// a NUL in a text or is larger than 256 MiB.
void write_study(const std::filesystem::path& path, const StudyTable& table, bool replace,
                 std::span<const std::filesystem::path> inputs = {});

/// The file's bytes. Throws Error as write_study() does for the table; `file` names it.
std::string study_bytes(const StudyTable& table, const std::string& file);

/// Read in a child process (trace_child.h), which `program` is; empty: in this one, for files of our own. Throws Error (bad
/// input) for what is no study, is damaged, or is larger than 256 MiB.
StudyTable read_study(const std::filesystem::path& program, const std::filesystem::path& path);

/// The same, but nothing for a file that is something else, a trace for example. A damaged study is still an Error.
std::optional<StudyTable> read_study_if_one(const std::filesystem::path& program, const std::filesystem::path& path);

/// The child: argv = {PROGRAM, "--study-child", PATH}; first of all in main(), as trace_child_main().
int study_child_main(int argc, char** argv);

}  // namespace kvscope
