#pragma once
// A folder that is made for what is written into it.

#include <filesystem>

#include "engine/core/support/error.h"

namespace kvscope {

/// Makes the folder, and those that it lies in, if it is not there. One that it has made and
/// that is still empty at its end, because nothing could be written, it removes.
class OutputFolder {
 public:
  /// Throws Error (resource) if it cannot be made.
  explicit OutputFolder(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    is_new_ = std::filesystem::create_directories(path, error);
    if (!std::filesystem::is_directory(path, error)) {
      throw Error({.code = ExitCode::resource,
                   .file = path.string(),
                   .found = "the folder cannot be made",
                   .expected = "a folder that can be written"});
    }
  }
  ~OutputFolder() {
    std::error_code ignored;
    if (is_new_) std::filesystem::remove(path_, ignored);  // which leaves a folder that has something in it
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  const std::filesystem::path& path_;
  bool is_new_ = false;
};

}  // namespace kvscope
