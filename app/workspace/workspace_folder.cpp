#include "app/workspace/workspace_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <charconv>

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr int kMostWindows = 64;
constexpr std::string_view kRun = "run-", kTrace = ".h5";

/// -1: another process has it.
FileHandle take_lock(const fs::path& file) {
  FileHandle lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // A file system without locks has nobody to ask.
  if (lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return FileHandle();
  return lock;
}

}  // namespace

WorkspaceFolder::WorkspaceFolder(const fs::path& state) {
  if (state.empty()) return;
  for (int n = 1; n <= kMostWindows; ++n) {
    const fs::path path = state / (n == 1 ? "workspace" : "workspace-" + std::to_string(n));
    std::error_code error;
    fs::create_directories(path / "runs", error);
    if (error) return;
    lock_ = take_lock(path / "lock");
    if (lock_.get() < 0) continue;
    path_ = path, number_ = n;
    return;
  }
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
