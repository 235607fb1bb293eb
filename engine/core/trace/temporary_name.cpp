// Names of traces that are not whole yet, and what processes that are gone have left under them.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "engine/core/trace/trace_live.h"

namespace kvscope::trace {

std::filesystem::path temporary_name(const std::filesystem::path& path, const char* tag) {
  std::string name = ".";  // built in steps: gcc 12 warns falsely about "." + string
  name += path.filename().string() + "." + std::to_string(::getpid()) + "." + tag;
  return path.parent_path() / name;
}

namespace {

/// The process whose temporary_name() for `target` this is, or for another such name of it; 0: it is none.
int writer_of(std::string_view name, std::string_view target) {
  const std::size_t kind = std::min(name.rfind('.'), name.size()), dot = name.rfind('.', kind == 0 ? 0 : kind - 1);
  const std::string_view tag = name.substr(kind);
  if (!name.starts_with('.') || dot == 0 || (tag != ".new" && tag != ".packed" && tag != ".live")) return 0;
  int pid = 0;
  const auto [end, failure] = std::from_chars(name.data() + dot + 1, name.data() + kind, pid);
  const std::string_view of = name.substr(1, dot - 1);
  if (failure != std::errc() || end != name.data() + kind) return 0;
  return of == target || writer_of(of, target) > 0 ? pid : 0;
}

}  // namespace

void remove_leftovers(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const int pid = writer_of(entry.path().filename().string(), path.filename().string());
    if (pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH) continue;  // none, or its writer is at work
    std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace kvscope::trace
