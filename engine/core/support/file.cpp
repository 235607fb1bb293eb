#include "engine/core/support/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a regular file";
}

bool is_resource_error(int error) {
  constexpr int kResource[] = {ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE, ESTALE, ENODEV};
  return std::find(std::begin(kResource), std::end(kResource), error) != std::end(kResource);
}

/// The line of an LFS pointer that begins with `key`, without the key.
std::string pointer_field(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + key.size());
  return std::string(rest.substr(0, std::min(rest.find_first_of("\r\n"), std::size_t{72})));
}

bool begins_with_tag(std::string_view text, std::string_view tag) {
  if (text.size() < tag.size()) return false;
  return std::equal(tag.begin(), tag.end(), text.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

}  // namespace

void throw_errno(int error, const std::filesystem::path& path, std::string_view action) {
  throw Error({.code = is_resource_error(error) ? ExitCode::resource : ExitCode::bad_input,
               .file = path.string(),
               .found = std::string(action) + ": " + std::strerror(error)});
}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

int FileHandle::release() { return std::exchange(fd_, -1); }

FileHandle open_regular_file(const std::filesystem::path& path, std::uint64_t& size) {
  // stat first: opening a device can have effects of its own. fstat again: the name may have changed hands meanwhile,
  // and O_NONBLOCK keeps a FIFO from waiting for its writer.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno(errno, path, "cannot be read");
  const auto require_regular = [&] {
    if (!S_ISREG(status.st_mode)) {
      throw Error({.file = path.string(), .found = kind_of(status.st_mode), .expected = "a regular file"});
    }
  };
  require_regular();
  FileHandle file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) throw_errno(errno, path, "cannot be read");
  if (::fstat(file.get(), &status) != 0) throw_errno(errno, path, "cannot be read");
  require_regular();
  size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

std::optional<ForeignContent> recognise_foreign(std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/")) {
    const std::string oid = pointer_field(bytes, "oid sha256:"), size = pointer_field(bytes, "size ");
    std::string found = "Git LFS pointer";
    if (!oid.empty() && !size.empty()) found += " (oid " + oid.substr(0, 8) + ", " + size + " bytes)";
    return ForeignContent{found, "run \"git lfs pull\""};
  }
  const std::string_view text = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  if (begins_with_tag(text, "<!doctype html") || begins_with_tag(text, "<html")) {
    return ForeignContent{"HTML page",
                          "the download returned a web page, often an error or a log-in page; download it again"};
  }
  using std::string_view_literals::operator""sv;
  if (bytes.starts_with("PK\3\4"sv) || bytes.starts_with("PK\5\6"sv)) {
    return ForeignContent{"ZIP archive (perhaps a PyTorch checkpoint)", "convert it to safetensors"};
  }
  if (bytes.starts_with("\x1F\x8B\x08"sv)) return ForeignContent{"gzip archive", "decompress it first"};
  if (bytes.starts_with("GGUF"sv)) return ForeignContent{"GGUF file", "use the safetensors files of the model"};
  if (bytes.starts_with("\x89HDF\r\n"sv)) return ForeignContent{"HDF5 file", ""};
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) {
    return ForeignContent{"Python pickle (perhaps an old PyTorch checkpoint)", "convert it to safetensors"};
  }
  return std::nullopt;
}

std::filesystem::path writable_target(const std::filesystem::path& path, bool replace,
                                      std::span<const std::filesystem::path> inputs, const std::string& hint) {
  if (path.filename().empty()) throw Error({.file = in_quotes(path.string()), .found = "not a file name"});
  std::error_code ignored;
  // A link to a file on another disk stays a link; the file it names is what is replaced.
  const auto target = std::filesystem::is_symlink(path, ignored) ? std::filesystem::weakly_canonical(path) : path;
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error({.file = path.string(), .found = "no such folder: " + folder.string(), .hint = "create it first"});
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) return target;
  if (!S_ISREG(status.st_mode))
    throw Error({.file = path.string(), .found = kind_of(status.st_mode), .expected = "a regular file or a new name"});
  for (const std::filesystem::path& input : inputs) {
    if (!std::filesystem::equivalent(input, target, ignored)) continue;
    throw Error({.file = path.string(),
                 .found = "the output file is " + input.string() + ", which is also an input",
                 .expected = "a different name"});
  }
  if (!replace) throw Error({.file = path.string(), .found = "it exists", .hint = hint});
  return target;
}

void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to, bool replace) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), replace ? 0 : RENAME_NOREPLACE);
  // Some network file systems know no flags; writable_target() has then seen that the name was free.
  if (result != 0 && errno == EINVAL && !replace) result = ::rename(from.c_str(), to.c_str());
  if (result != 0 && errno == EEXIST && !replace) {
    throw Error({.code = ExitCode::resource,
                 .file = to.string(),
                 .found = "another process has just created it",
                 .hint = "choose another name; to continue a capture, use --resume"});
  }
  if (result != 0) throw_errno(errno, to, "cannot be written");
  // The rename itself lives in the folder. Some file systems cannot sync one; the file is whole in any case.
  const std::filesystem::path folder = to.has_parent_path() ? to.parent_path() : ".";
  const FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() >= 0) ::fsync(handle.get());
}

namespace {

constexpr std::string_view kTemporary = ".kvscope-";

/// Removes what killed writers have left in a folder: their locks went with them. Where a file system knows no locks all
/// stays, as nobody can tell.
void remove_temporaries(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kTemporary) || name.size() != kTemporary.size() + 6) continue;
    const FileHandle file(::open(it->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
  }
}

/// Locks a file that was just made. False: another writer came before the lock and removed it.
bool hold(const FileHandle& file) {
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat status {};
  return ::fstat(file.get(), &status) != 0 || status.st_nlink > 0;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target, bool replace)
    : named_(target), target_(writable_target(target, replace)), replace_(replace) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  remove_temporaries(target_.has_parent_path() ? target_.parent_path() : ".");
  std::string name;
  do {
    // Not derived from the target's name, which may already be as long as the file system allows.
    name = (target_.parent_path() / (std::string(kTemporary) + "XXXXXX")).string();
    file_ = FileHandle(::mkostemp(name.data(), O_CLOEXEC));
    if (file_.get() < 0) throw_errno(errno, named_, "cannot be written");
  } while (!hold(file_));
  temporary_ = name;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file_.get(), exists ? status.st_mode & 07777 : 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, named_, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void AtomicFile::sync() {
  lock_ = FileHandle(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (::fsync(file_.get()) != 0) throw_errno(errno, named_, "cannot be written");
  // close reports errors that a network file system kept for the end.
  if (::close(file_.release()) != 0) throw_errno(errno, named_, "cannot be written");
}

void AtomicFile::commit() {
  if (file_.get() >= 0) sync();
  rename_into_place(temporary_, target_, replace_);
  temporary_.clear();
  lock_ = FileHandle();
}

void AtomicFile::undo() {
  if (!replace_) ::unlink(target_.c_str());
}

void commit_together(std::span<AtomicFile* const> files) {
  for (AtomicFile* file : files) file->sync();
  std::size_t done = 0;
  try {
    for (; done < files.size(); ++done) files[done]->commit();
  } catch (const Error&) {
    for (std::size_t i = 0; i < done; ++i) files[i]->undo();
    throw;
  }
}

}  // namespace kvscope
