#include "app/workspace/workspace_folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr int kMostWindows = 64;
constexpr std::string_view kRun = "run-", kTrace = ".h5";

/// On a full disk a file can be made, but nothing be written to it. 0, or errno.
int why_not_written(const fs::path& folder) {
  const fs::path probe = folder / ".probe";
  const FileHandle file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return errno;
  const ssize_t n = ::write(file.get(), "probe\n", 6);
  const int error = n == 6 ? 0 : n < 0 ? errno : ENOSPC;
  ::unlink(probe.c_str());
  return error;
}

}  // namespace

WorkspaceFolder::WorkspaceFolder(const fs::path& state) : state_(state) { look(false); }

void WorkspaceFolder::look(bool for_empty_one) {
  for (int n = 1; n <= kMostWindows && !state_.empty(); ++n) {
    const fs::path path = state_ / (n == 1 ? "workspace" : "workspace-" + std::to_string(n));
    std::error_code error;
    if (for_empty_one && fs::exists(path / "workspace.json", error)) continue;
    if (!take(path)) continue;
    number_ = exists() ? n : 0;
    return;
  }
  unusable_ = state_.string(), reason_ = std::to_string(kMostWindows) + " windows are open";
}

// What lies on a disk that cannot be written is read all the same.
bool WorkspaceFolder::take(const fs::path& path) {
  std::error_code made, error;
  fs::create_directories(path / "runs", made);
  if (!fs::is_directory(path, error)) {
    unusable_ = path.string(), reason_ = made.message();
    return true;
  }
  FileHandle lock(::open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) lock = FileHandle(::open((path / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  // A file system without locks has nobody to ask.
  if (lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  path_ = path, lock_ = std::move(lock);
  probe();
  return true;
}

void WorkspaceFolder::probe() {
  unusable_.clear(), reason_.clear();
  for (const fs::path& folder : {path_, path_ / "runs"}) {
    const int error = why_not_written(folder);
    if (error == 0) continue;
    unusable_ = folder.string(), reason_ = ::strerror(error);
    return;
  }
}

bool WorkspaceFolder::try_again() {
  if (!exists()) {
    look(true);
    return is_writable();
  }
  std::error_code error;
  fs::create_directories(path_ / "runs", error);
  probe();
  return is_writable();
}

fs::path WorkspaceFolder::run_file(int id) const {
  return path_ / "runs" / (std::string(kRun) + std::to_string(id) + std::string(kTrace));
}

std::map<int, fs::path> WorkspaceFolder::run_files() const {
  std::map<int, fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_ / "runs", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kRun) || !name.ends_with(kTrace)) continue;
    const char *begin = name.data() + kRun.size(), *end = name.data() + name.size() - kTrace.size();
    int id = 0;
    const auto [stop, failure] = std::from_chars(begin, end, id);
    if (failure == std::errc() && stop == end && id > 0) files[id] = entry.path();
  }
  return files;
}

// The lock is ours: nobody else writes there, whatever process the names are of.
void WorkspaceFolder::remove_leftovers() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_ / "runs", error)) {
    if (entry.path().filename().string().starts_with('.')) fs::remove(entry.path(), error);
  }
}

fs::path set_aside(const fs::path& file) {
  for (int n = 1; n < 1000; ++n) {
    const fs::path other =
        file.parent_path() / (file.stem().string() + ".damaged-" + std::to_string(n) + file.extension().string());
    std::error_code error;
    if (fs::exists(other, error)) continue;
    fs::rename(file, other, error);
    return error ? fs::path() : other;
  }
  return {};
}

}  // namespace kvscope::app
