#pragma once
// One process at a time writes a file, or into a folder. A lock goes with its process, however that ends.

#include <filesystem>
#include <string>

#include "engine/core/support/file.h"

namespace kvscope {

/// Locks an open file. Throws Error (resource) that names the process which holds it already. Where the file system knows no
/// locks, nothing is locked.
void take_lock(const FileHandle& file, const std::filesystem::path& path,
               const std::string& hint = "wait until it ends");
/// The same of a folder that is there; held as long as the handle.
FileHandle lock_folder(const std::filesystem::path& folder);

}  // namespace kvscope
