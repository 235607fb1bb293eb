#pragma once
// Regular files: opened without ever blocking, written so that a crash leaves the old file or the new one.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
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

/// `path` with links resolved, once it is sure that a file may be put there. Throws Error (bad input): no such folder, a
/// folder or device of that name, one of `inputs` (which are read for what is written) under any name, a file of that
/// name without `replace`, where `hint` says what to do.
std::filesystem::path writable_target(const std::filesystem::path& path, bool replace,
                                      std::span<const std::filesystem::path> inputs = {},
                                      const std::string& hint = "choose another name or overwrite it");

/// rename() that syncs the folder afterwards; without `replace` an existing target is an Error.
void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to, bool replace);

/// A file under a temporary name beside its target; commit() syncs and renames it, the destructor removes it otherwise.
/// Its writer holds a lock on it: what a killed one has left in a folder, the next one that writes there removes. Every file that the program writes is written so, traces apart, which have the same rule (trace_live.h).
class AtomicFile {
 public:
  /// Refuses what writable_target() refuses.
  explicit AtomicFile(const std::filesystem::path& target, bool replace = true);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::string_view bytes);
  /// On disk, under the temporary name: what is left of commit() needs no space. Of several files that belong together
  /// all are synced before the first is renamed.
  void sync();
  void commit();
  const std::filesystem::path& target() const { return target_; }
  /// Removes what commit() has put where nothing was; what it replaced is gone, but whole is what stands there.
  void undo();

 private:
  std::filesystem::path named_, target_, temporary_;  // as given, with links resolved, while writing
  bool replace_;
  FileHandle file_, lock_;  // the lock outlives sync(), which closes the file
};

/// Commits files that belong together, in this order: none has its name before all are on disk, and none that is new if
/// one cannot have its own.
void commit_together(std::span<AtomicFile* const> files);

/// An Error for errno: a full disk, exhausted descriptors and device faults are ExitCode::resource, the rest bad_input.
[[noreturn]] void throw_errno(int error, const std::filesystem::path& path, std::string_view action);

}  // namespace kvscope
