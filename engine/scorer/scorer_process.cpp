#include "engine/scorer/scorer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"

namespace kvscope::engine {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOfGreeting = 1u << 16, kMostOfStderr = 1u << 12;
constexpr int kPipeBytes =
    1 << 20;  // what a chunk of a prompt is written in; Linux refuses more than its limit, and it stays
constexpr int kMaxDelay = 4096;
constexpr milliseconds kEndPatience(500);

/// A program that has gone is an error of write(), not a signal, whatever else this process does with SIGPIPE.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec now{};
    while (::sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
};

bool readable(int fd, int wait_ms = 0) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, wait_ms) > 0;
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \r\n\t");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
}

}  // namespace

ScorerProcess::ScorerProcess(const std::string& command, const std::string& greeting, milliseconds patience)
    : name_("pipe:" + command), patience_(patience), child_(ChildProcess::start({"/bin/sh", "-c", command})) {
  for (const int fd : {child_.stdin_fd(), child_.stdout_fd(), child_.stderr_fd()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  ::fcntl(child_.stdin_fd(), F_SETPIPE_SZ, kPipeBytes);
  exchange(greeting + "\n", 0);
  offer_ = read_offer();
  // Only now: how much of what follows a line that is no greeting has come by then is chance.
  if (received_.find('\n') + 1 != received_.size()) fail_of_flood("one line of JSON");
}

ScorerOffer ScorerProcess::read_offer() const {
  const std::string file = name_ + ": greeting";
  const nlohmann::json value = parse_json(std::string_view(received_).substr(0, received_.find('\n')), file);
  const JsonObject object(value, file);
  object.integer("kvscope_scorer", 1, 1);
  ScorerOffer offer{.name = object.text_or("name", "scorer"),
                    .delay = static_cast<int>(object.integer_or("delay", 1, 1, kMaxDelay))};
  for (const std::string& reads : object.texts("reads")) {
    bool* const known = reads == "keys"     ? &offer.keys
                        : reads == "values" ? &offer.values
                        : reads == "hidden" ? &offer.hidden
                                            : nullptr;
    if (known == nullptr)
      throw Error({.file = file, .where = "reads", .found = in_quotes(reads), .expected = "keys, values, hidden"});
    *known = true;
  }
  if (!offer.keys && !offer.values && !offer.hidden)
    throw Error({.file = file, .where = "reads", .found = "nothing", .expected = "keys, values, hidden"});
  return offer;
}

std::string_view ScorerProcess::ask(std::string_view frame, std::size_t n_bytes) {
  exchange(frame, n_bytes);
  return received_;
}

void ScorerProcess::tell(std::string_view frame) {
  try {
    if (!is_lost()) exchange(frame, std::string::npos);
  } catch (const Error&) {  // the next request gets the error
  }
}

bool ScorerProcess::has_all(std::size_t n_bytes) const {
  if (n_bytes == std::string::npos) return true;  // nothing is to come
  return n_bytes > 0 ? received_.size() >= n_bytes : received_.find('\n') != std::string::npos;
}

void ScorerProcess::exchange(std::string_view out, std::size_t n_bytes) {
  if (lost_) throw *lost_;
  const NoPipeSignal no_signal;
  received_.clear();
  // What comes before the greeting is read as the greeting: whether it came early is chance.
  if (n_bytes > 0 && readable(child_.stdout_fd())) {
    if (!read_some(child_.stdout_fd(), received_)) fail_of_end();
    fail_of_flood("none before the next request");
  }
  const Clock::time_point begun = Clock::now();
  while (!out.empty() || !has_all(n_bytes)) {
    std::array<pollfd, 3> fds = {{{out.empty() ? -1 : child_.stdin_fd(), POLLOUT, 0},
                                  {child_.stdout_fd(), POLLIN, 0},
                                  {stderr_ended_ ? -1 : child_.stderr_fd(), POLLIN, 0}}};
    const auto left = patience_ - std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    if (patience_.count() >= 0 && left.count() <= 0)
      fail("no answer for " + number_text(std::chrono::duration<double>(patience_).count(), 3) + " s",
           "one within KVSCOPE_ENGINE_TIMEOUT");
    const int ready = ::poll(fds.data(), fds.size(), patience_.count() < 0 ? -1 : static_cast<int>(left.count()) + 1);
    if (ready <= 0) continue;
    if (fds[2].revents != 0) read_stderr();
    if (fds[1].revents != 0 && !read_some(child_.stdout_fd(), received_)) fail_of_end();
    if (received_.size() > (n_bytes == 0 ? kMostOfGreeting : n_bytes) && n_bytes != std::string::npos) break;
    if (fds[0].revents != 0) write_some(out);
  }
  if (n_bytes == 0) {
    if (!has_all(n_bytes)) fail_of_flood("one line of JSON");
    return;
  }
  const std::size_t wanted = n_bytes == std::string::npos ? 0 : n_bytes;
  if (received_.size() > wanted || (readable(child_.stdout_fd()) && read_some(child_.stdout_fd(), received_)))
    fail_of_flood("an answer of " + std::to_string(wanted) + " bytes");
}

void ScorerProcess::write_some(std::string_view& out) {
  const ssize_t n = ::write(child_.stdin_fd(), out.data(), out.size());
  if (n > 0) out.remove_prefix(static_cast<std::size_t>(n));
  if (n < 0 && errno != EAGAIN && errno != EINTR) fail_of_end();
}

bool ScorerProcess::read_some(int fd, std::string& to) {
  char bytes[1 << 16];
  const ssize_t n = ::read(fd, bytes, sizeof bytes);
  if (n > 0) to.append(bytes, static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void ScorerProcess::read_stderr() {
  stderr_ended_ = !read_some(child_.stderr_fd(), said_);
  if (said_.size() > kMostOfStderr) said_.erase(0, said_.size() - kMostOfStderr);
}

void ScorerProcess::fail_of_flood(std::string expected) { fail("more bytes than were asked for", std::move(expected)); }

void ScorerProcess::fail(std::string found, std::string expected) {
  const std::string last = last_line(said_);
  if (!last.empty()) found += "; its last message: " + last;
  lost_ =
      Error({.code = ExitCode::resource, .file = name_, .found = std::move(found), .expected = std::move(expected)});
  child_.signal_group(SIGKILL);
  throw *lost_;
}

void ScorerProcess::fail_of_end() {
  const std::optional<int> status = child_.wait(kEndPatience);
  while (!stderr_ended_ && readable(child_.stderr_fd(), 20)) read_stderr();
  fail("the scorer stopped: " + (status ? describe_wait_status(*status) : "it closed its output"));
}

}  // namespace kvscope::engine
