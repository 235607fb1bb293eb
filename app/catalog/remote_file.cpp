#include "app/catalog/remote_file.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/catalog/models.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/shell_quote.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

// Before its line a login script may print others. GNU's stat comes first, then BSD's.
constexpr std::string_view kMark = "kvscope-file ";
constexpr const char* kScript =
    "if [ -d \"$1\" ]; then echo kvscope-file folder; exit; fi; "
    "if ! [ -r \"$1\" ]; then echo kvscope-file missing; exit; fi; "
    "echo kvscope-file $(stat -Lc \"%s %Y\" \"$1\" 2>/dev/null || stat -Lf \"%z %m\" \"$1\"); "
    "read go && exec cat \"$1\"";
constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t kMostStart = 1u << 16, kMostErrors = 1u << 16;

[[noreturn]] void throw_remote(const RemoteFile& file, ExitCode code, std::string found, std::string hint = "") {
  throw Error({.code = code, .file = file.word, .found = std::move(found), .hint = std::move(hint)});
}

std::string own_ssh() {
  const char* own = std::getenv("KVSCOPE_SSH");
  return own != nullptr ? own : "";
}

std::vector<std::string> ssh_argv(const RemoteFile& file) {
  const std::string path = file.path.starts_with("~/") ? file.path.substr(2) : file.path;
  // A password could not be typed: the program's input is taken.
  const std::string start = std::string("exec ") + (own_ssh().empty() ? "ssh" : own_ssh()) +
                            " -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 \"$@\"";
  return {
      "/bin/sh", "-c",
      start,     "ssh",
      file.host, "sh -c " + shell_quote(kScript) + " sh " + shell_quote(path.starts_with('-') ? "./" + path : path)};
}

/// The other side's end of the connection.
class Sender {
 public:
  Sender(const RemoteFile& file, const CopyProgress& progress)
      : file_(file), progress_(progress), child_(ChildProcess::start(ssh_argv(file))) {
    ::signal(SIGPIPE, SIG_IGN);  // a connection that has ended is an error to handle
  }

  /// Appends what comes next to `out`; false at the end.
  bool receive(std::string& out) {
    while (true) {
      if (!progress_(done, total)) throw_remote(file_, ExitCode::cancelled, "cancelled");
      std::array<pollfd, 2> waiting = {
          {{child_.stdout_fd(), POLLIN, 0}, {errors_open_ ? child_.stderr_fd() : -1, POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), 100) <= 0) continue;
      if (waiting[1].revents != 0) errors_open_ = take(child_.stderr_fd(), errors_);
      if (errors_.size() > kMostErrors) errors_.erase(0, errors_.size() - kMostErrors);
      if (waiting[0].revents != 0) return take(child_.stdout_fd(), out);
    }
  }

  void send_line() {
    // If the line does not arrive, nothing comes, and that is reported.
    [[maybe_unused]] const ssize_t written = ::write(child_.stdin_fd(), "go\n", 3);
  }

  /// Why it ended early: the last line that ssh printed.
  [[noreturn]] void throw_end(const std::string& when) {
    // Not to the end: a connection that ssh keeps for later calls holds it open.
    for (pollfd entry{child_.stderr_fd(), POLLIN, 0}; errors_open_ && ::poll(&entry, 1, 500) > 0;)
      errors_open_ = take(entry.fd, errors_);
    const auto status = child_.wait(std::chrono::seconds(5));
    errors_.resize(errors_.find_last_not_of(" \r\n") + 1);
    std::string why = errors_.substr(errors_.rfind('\n') + 1);
    if (why.empty()) why = status ? describe_wait_status(*status) : "the connection ended";
    throw_remote(file_, ExitCode::resource, when + escape_for_terminal(why),
                 own_ssh().empty() ? "try ssh " + shell_quote(file_.host) + ", which must work without a password"
                                   : "check KVSCOPE_SSH, which is " + in_quotes(own_ssh()));
  }

  std::uint64_t done = 0, total = 0;

 private:
  /// False at the end.
  static bool take(int fd, std::string& out) {
    std::array<char, 1 << 16> bytes;
    ssize_t got;
    do got = ::read(fd, bytes.data(), bytes.size());
    while (got < 0 && errno == EINTR);
    if (got > 0) out.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  const RemoteFile& file_;
  const CopyProgress& progress_;
  ChildProcess child_;
  std::string errors_;
  bool errors_open_ = true;
};

/// "SIZE TIME" of the line that the script prints.
std::string read_state(const RemoteFile& file, Sender& sender) {
  std::string start;
  while (sender.receive(start)) {
    std::size_t at = start.starts_with(kMark) ? 0 : start.find("\n" + std::string(kMark));
    if (at != std::string::npos && at > 0) ++at;
    const std::size_t end = at == std::string::npos ? at : start.find('\n', at);
    if (end == std::string::npos && start.size() < kMostStart) continue;
    if (end == std::string::npos) break;
    std::string state = start.substr(at + kMark.size(), end - at - kMark.size());
    if (state == "missing") throw_remote(file, ExitCode::bad_input, "no such file, or no permission to read it");
    if (state == "folder") throw_remote(file, ExitCode::bad_input, "a folder", remote_model_hint(file.word));
    return state;
  }
  sender.throw_end("ssh failed: ");
}

struct CachedFile {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

std::vector<CachedFile> cached_files() {
  std::vector<CachedFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(remote_cache(), error), end; !error && at != end; at.increment(error)) {
    std::error_code none;
    if (at->is_regular_file(none)) files.push_back({at->path(), at->last_write_time(none), at->file_size(none)});
  }
  std::ranges::sort(files, {}, &CachedFile::used);
  return files;
}

/// Removes the copies that were used longest ago, until `bytes` more fit.
void make_room(std::uint64_t bytes, std::uint64_t most_bytes) {
  const std::vector<CachedFile> files = cached_files();
  std::uint64_t sum = bytes;
  for (const CachedFile& file : files) sum += file.bytes;
  for (const CachedFile& file : files) {
    if (sum <= most_bytes) return;
    std::error_code error;
    if (!fs::remove(file.path, error)) continue;
    fs::remove(file.path.parent_path(), error);
    sum -= file.bytes;
  }
}

void receive_file(const RemoteFile& file, Sender& sender, const fs::path& target) {
  AtomicFile out(target);
  sender.send_line();
  std::string bytes, start;
  for (bool more = true; more && sender.done <= sender.total; bytes.clear()) {
    more = sender.receive(bytes);
    if (start.size() < kHdf5Signature.size()) start += bytes.substr(0, kHdf5Signature.size());
    if (start.substr(0, kHdf5Signature.size()) != kHdf5Signature.substr(0, start.size()))
      throw_remote(file, ExitCode::bad_input, "not an HDF5 file", "give a trace or study that KVScope wrote");
    out.write(bytes);
    sender.done += bytes.size();
  }
  if (sender.done > sender.total)
    throw_remote(file, ExitCode::resource, "it grew while it was copied", "try again later");
  if (sender.done < sender.total)
    sender.throw_end("it ended after " + std::to_string(sender.done) + " of " + std::to_string(sender.total) +
                     " bytes: ");
  out.commit();
}

}  // namespace

std::optional<RemoteFile> remote_file(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == word.size()) return std::nullopt;
  const auto is_of_host = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("@._-").find(c) != std::string_view::npos;
  };
  std::error_code error;
  if (word[0] == '-' || !std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(colon), is_of_host) ||
      fs::exists(word, error))
    return std::nullopt;
  return RemoteFile{.word = word, .host = word.substr(0, colon), .path = word.substr(colon + 1)};
}

std::string remote_model_hint(const std::string& word) {
  const auto file = remote_file(word);
  if (!file || file->is_trace()) return "";
  return "models are not copied; run the engine there: --engine \"ssh " + file->host +
         " kvscope-engine\" with the model " + shell_quote(file->path);
}

fs::path remote_cache() {
  const fs::path models = model_cache();
  return models.empty() ? models : models.parent_path() / "remote";
}

fs::path copy_remote(const RemoteFile& file, const CopyProgress& progress, std::uint64_t most_bytes) {
  if (remote_cache().empty())
    throw Error({.code = ExitCode::resource, .file = "HOME", .found = "it is not set", .expected = "a home folder"});
  Sender sender(file, progress);
  const std::string state = read_state(file, sender);
  const char* end = state.data() + state.size();
  if (std::from_chars(state.data(), end, sender.total).ec != std::errc())
    throw_remote(file, ExitCode::resource, "its size cannot be read there",
                 "install the program stat on the other machine");
  if (sender.total == 0) throw_remote(file, ExitCode::bad_input, "an empty file", "create the trace or study again");
  const fs::path folder = remote_cache() / hex_text(fnv1a64(file.host + '\n' + file.path + '\n' + state));
  const fs::path target = folder / fs::path(file.path).filename();
  std::error_code error;
  if (fs::file_size(target, error) == sender.total && !error) {
    fs::last_write_time(target, fs::file_time_type::clock::now(), error);
    return target;
  }
  make_room(sender.total, most_bytes);
  fs::create_directories(folder, error);
  if (error) throw Error({.code = ExitCode::resource, .file = folder.string(), .found = error.message()});
  try {
    receive_file(file, sender, target);
  } catch (...) {
    fs::remove(folder, error);  // if nothing is in it
    throw;
  }
  return target;
}

}  // namespace kvscope::app
