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
#include <mutex>
#include <vector>

#include "engine/core/support/text.h"

extern char** environ;

namespace kvscope::trace {

namespace {

constexpr int kMostOfClock = 24;  // times the limit of work: two minutes
constexpr int kNotLoaded = 127;   // what the dynamic linker exits with, for want of memory say
constexpr int kLookMs = 100;      // between two looks at a child that does not answer

OnSlowReading& slow_reading() {
  static OnSlowReading ask;
  return ask;
}

/// Children that were killed while they waited for a disk. Their end comes when the disk answers; nobody waits for it.
class LeftChildren {
 public:
  void add(pid_t pid) {
    const std::scoped_lock lock(mutex_);
    pids_.push_back(pid);
  }
  void take_ended() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
} left_children;

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
  left_children.take_ended();
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
  if (lost_) std::rethrow_exception(lost_);
  work_ = limits_.work;
  begun_ = Clock::now();
  cpu_before_ = cpu_time();
}

void GuardedChild::ask(std::int32_t what) { (void)::send(socket_.get(), &what, sizeof what, MSG_NOSIGNAL); }

void GuardedChild::fail(Error::Parts parts) {
  end(true);
  parts.file = path_.string();
  lost_ = std::make_exception_ptr(Error(std::move(parts)));
  std::rethrow_exception(lost_);
}

void GuardedChild::fail(std::string found) { fail(Error::Parts{.found = std::move(found), .expected = wanted_}); }

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
    pollfd poll{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&poll, 1, kLookMs);
    if (ready <= 0 || Clock::now() - begun_ > work_) check_patience();
    if (ready <= 0) continue;
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

/// A file is bad if reading it is much *work*. Time that the child did not get (other programs have the machine) or spent
/// waiting (a network disk that stands still) says nothing about the file.
void GuardedChild::check_patience() {
  if (cpu_time() - cpu_before_ >= work_)
    fail("reading it took longer than " + number_text(std::chrono::duration<double>(work_).count(), 3) +
         " s of CPU time");
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_);
  if (slow_reading() && !slow_reading()(path_, waited))
    fail(Error::Parts{.code = ExitCode::cancelled, .found = "cancelled while reading"});
  if (waited < work_ * kMostOfClock) return;
  fail(Error::Parts{.code = ExitCode::resource,
                    .found = "not read within " + number_text(static_cast<double>(waited.count()) / 1000, 3) +
                             " s: the machine is busy or the disk does not respond",
                    .hint = "try again"});
}

void GuardedChild::fail_of_end() {
  const int status = end(false);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU) fail("reading it took too long");
  // Not by us, who say why: by the kernel, for want of memory, or by somebody who ends everything of ours.
  if (signal == SIGKILL) {
    fail(Error::Parts{.code = ExitCode::resource,
                      .found = "the process that was reading it was killed",
                      .expected = "enough memory, and no other program that kills it",
                      .hint = "the file may be intact; try again"});
  }
  if (signal == 0 && WEXITSTATUS(status) == kNotLoaded) {
    fail(Error::Parts{.code = ExitCode::resource,
                      .found = "the process that reads it could not start",
                      .expected = "memory and file handles for it",
                      .hint = "check ulimit -a"});
  }
  if (signal != 0) fail("the file crashed the HDF5 reader (signal " + std::to_string(signal) + ")");
  if (WEXITSTATUS(status) != 0) {
    fail("the file crashed the HDF5 reader (exit code " + std::to_string(WEXITSTATUS(status)) + ")");
  }
  throw BadMessage{};
}

/// Its wait status; 0 if its end did not come. Killed or not, a child that waits for a disk ends when that answers.
int GuardedChild::end(bool kill_first) {
  int status = 0;
  if (pid_ < 0) return status;
  if (kill_first) ::kill(pid_, SIGKILL);
  // Its end of the socket closes as it ends.
  for (pollfd hung_up{socket_.get(), 0, 0}; ::poll(&hung_up, 1, 500) < 0 && errno == EINTR;) {
  }
  pid_t ended = 0;
  for (int look = 0; ended == 0 && look < (kill_first ? 50 : 3000); ++look) {
    if (look > 0) ::poll(nullptr, 0, look < 10 ? 1 : 20);
    ended = ::waitpid(pid_, &status, WNOHANG);
  }
  if (ended == 0) ::kill(pid_, SIGKILL), left_children.add(pid_);
  pid_ = -1;
  return status;
}

}  // namespace kvscope::trace

namespace kvscope {

void on_slow_reading(OnSlowReading ask) { trace::slow_reading() = std::move(ask); }

}  // namespace kvscope
