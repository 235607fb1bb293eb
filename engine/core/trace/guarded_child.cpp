#include "engine/core/trace/guarded_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/support/text.h"

extern char** environ;

namespace kvscope::trace {

namespace {

constexpr int kMostOfClock = 12;  // times the limit, if the machine has other work

/// A terminal and a batch system send Ctrl+C and TERM to every process of the group. They are for the parent, which then
/// ends this one: a child that died of them would look like a damaged file.
class Deaf {
 public:
  Deaf() {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&blocked, number);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &blocked);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~Deaf() { posix_spawnattr_destroy(&attributes_); }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

GuardedChild::GuardedChild(const std::filesystem::path& program, const char* flag, const std::filesystem::path& path,
                           const char* wanted, const ChildLimits& limits)
    : path_(path), wanted_(wanted), limits_(limits) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno(errno, path, "open a socket");
  socket_ = FileHandle(ends[0]);
  const FileHandle theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  // A crashing allocator writes to stderr; our own line says it better.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string arguments[] = {program.string(), flag, path.string()};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, Deaf().get(), argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    throw_errno(error, program, "start");
  }
}

void GuardedChild::begin() {
  if (pid_ < 0) fail("its reader was lost before");
  deadline_ = Clock::now() + limits_.timeout;
  begun_ = Clock::now();
  cpu_before_ = cpu_time();
}

void GuardedChild::ask(std::int32_t what) { (void)::send(socket_.get(), &what, sizeof what, MSG_NOSIGNAL); }

void GuardedChild::fail(std::string found) {
  end(true);
  throw Error({.file = path_.string(), .found = std::move(found), .expected = wanted_});
}

std::size_t GuardedChild::frame_size(MessageKind wanted, std::size_t most) {
  std::uint64_t size = 0;
  std::uint8_t kind = 0;
  read({reinterpret_cast<char*>(&size), sizeof size});
  read({reinterpret_cast<char*>(&kind), sizeof kind});
  if (size < sizeof kind) throw BadMessage{};
  size -= sizeof kind;
  if (static_cast<MessageKind>(kind) != MessageKind::column && size > most) throw BadMessage{};
  if (static_cast<MessageKind>(kind) == MessageKind::error) {
    const std::string body = text(size);
    MessageReader in(body);
    throw_sent_error(in);
  }
  if (static_cast<MessageKind>(kind) != wanted) throw BadMessage{};
  return size;
}

std::string GuardedChild::text(std::size_t size) {
  std::string body(size, '\0');
  read(body);
  return body;
}

void GuardedChild::read(std::span<char> to) {
  while (!to.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd poll{socket_.get(), POLLIN, 0};
    const int ready = left > 0 ? ::poll(&poll, 1, static_cast<int>(std::min<long long>(left, INT32_MAX))) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && is_starved()) {
      deadline_ = Clock::now() + limits_.timeout;
      continue;
    }
    if (ready <= 0) fail("reading it took longer than " + number_text(limits_.timeout.count() / 1000.0) + " s");
    const auto n = ::read(socket_.get(), to.data(), to.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_of_end();
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

/// What the child has computed since it was started; 0 if that cannot be said.
std::chrono::nanoseconds GuardedChild::cpu_time() const {
  clockid_t clock;
  timespec used{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// Whether the time was mostly others': on a machine with eight times the work that it has cores for, a good trace of
/// 100,000 tokens took 5 s of the clock for 0.4 s of its own. One that waits for nothing is not waited for without end.
bool GuardedChild::is_starved() const {
  const auto used = cpu_time() - cpu_before_;
  return used > limits_.timeout / 50 && used < limits_.timeout / 2 &&
         Clock::now() - begun_ < limits_.timeout * kMostOfClock;
}

void GuardedChild::fail_of_end() {
  const int status = end(false);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU) fail("reading it took too long");
  // Not by us, who say why: by the kernel, for want of memory, or by somebody who ends everything of ours.
  if (signal == SIGKILL) {
    throw Error({.code = ExitCode::resource,
                 .file = path_.string(),
                 .found = "the process that reads it was killed",
                 .expected = "memory for it, and nobody who kills it",
                 .hint = "the file may be as good as it was; try again"});
  }
  if (signal != 0) fail("the file crashed the HDF5 reader (signal " + std::to_string(signal) + ")");
  if (WEXITSTATUS(status) != 0) {
    fail("the file crashed the HDF5 reader (exit code " + std::to_string(WEXITSTATUS(status)) + ")");
  }
  throw BadMessage{};
}

/// Its wait status.
int GuardedChild::end(bool kill_first) {
  int status = 0;
  if (pid_ < 0) return status;
  if (kill_first) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace kvscope::trace
