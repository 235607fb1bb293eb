#include "app/cli/array_recording.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "app/support/python.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"

namespace kvscope::app {
namespace {

constexpr const char* kHint = "KVSCOPE_PYTHON names a Python with NumPy and the package kvscope";

/// Until something can be read. False: the stream has ended.
bool has_output(int fd) {
  pollfd entry{fd, POLLIN, 0};
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
  return (entry.revents & POLLIN) != 0;
}

/// What a program that has ended left in a pipe, at most what a pipe holds.
std::string read_rest(int fd) {
  std::array<char, 1 << 16> bytes;
  std::string text;
  while (text.size() < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// Its last line: the package's own error, or what Python prints if it cannot start the package.
[[noreturn]] void throw_end(const std::filesystem::path& path, ChildProcess& python) {
  static constexpr std::string_view kError = "error: ";
  std::string text = read_rest(python.stderr_fd());
  const int status = python.wait(std::chrono::seconds(5)).value_or(0);
  text.resize(text.find_last_not_of(" \r\n") + 1);
  std::string line = text.substr(text.rfind('\n') + 1);
  if (line.starts_with(kError)) {
    const bool is_bad = WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ExitCode::bad_input);
    throw Error({.code = is_bad ? ExitCode::bad_input : ExitCode::resource, .found = line.substr(kError.size())});
  }
  if (line.empty()) line = "Python ended: " + describe_wait_status(status);
  throw Error({.code = ExitCode::resource, .file = path.string(), .found = std::move(line), .hint = kHint});
}

}  // namespace

RunRecord read_array_recording(const std::filesystem::path& path, const protocol::RecordingProgress& progress) {
  std::uint64_t size = 0;
  open_regular_file(path, size);
  ChildProcess python = ChildProcess::start(python_argv("kvscope.recording_files", {path.string(), "-"}));
  if (!has_output(python.stdout_fd())) throw_end(path, python);
  return protocol::read_recording(python.stdout_fd(), path, 0, progress);
}

}  // namespace kvscope::app
