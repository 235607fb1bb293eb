#pragma once
// Regular files: opened without ever blocking, written so that a crash leaves the old file or the new one.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

/// An open file descriptor, closed once.
class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

/// Opens a regular file for reading and gives its size in bytes. A FIFO, device, socket or directory is an Error (a
/// FIFO would otherwise block until somebody writes), as is anything the system refuses.
FileHandle open_regular_file(const std::filesystem::path& path, std::uint64_t& size);

/// What a file is that should have been something else, from its first bytes: a Git LFS pointer, a web page, an
/// archive.
struct ForeignContent {
  std::string found;  // "Git LFS pointer"
  std::string hint;
};
std::optional<ForeignContent> recognise_foreign(std::string_view first_bytes);

/// A file under a temporary name beside its target; commit() syncs and renames it, the destructor removes it otherwise.
class AtomicFile {
 public:
  /// Refuses a target that exists and is not a regular file (renaming over /dev/null would replace the device).
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path named_, target_, temporary_;  // as given, with links resolved, while writing
  FileHandle file_;
};

/// An Error for errno: a full disk, exhausted descriptors and device faults are ExitCode::resource, the rest bad_input.
[[noreturn]] void throw_errno(int error, const std::filesystem::path& path, std::string_view action);

}  // namespace kvscope
