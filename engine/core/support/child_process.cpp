#include "engine/core/support/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
  void open() {
    int fds[2];
    // Close-on-exec, or a second engine would hold the first one's pipes open and its end would never be seen.
    if (::pipe2(fds, O_CLOEXEC) != 0) {
      throw Error({.code = ExitCode::resource, .file = "pipe", .found = ::strerror(errno)});
    }
    read = fds[0], write = fds[1];
  }
  int take(int& end) { return std::exchange(end, -1); }
};

/// Of the calling thread, while it lives: a handler that ran in the child would write to the parent's memory.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// The memory is the parent's until exec: only async-signal-safe calls are allowed, and nothing may be written to.
[[noreturn]] void exec_child(char* const* argv, const Pipe& in, const Pipe& out, const Pipe& err, int report_fd,
                             pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl
  ::dup2(in.read, STDIN_FILENO);
  ::dup2(out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGHUP, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildProcess ChildProcess::start(const std::vector<std::string>& argv) {
  Pipe in, out, err, report;
  in.open(), out.open(), err.open(), report.open();
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);

  const pid_t parent = ::getpid();
  pid_t pid = -1;
  {
    // fork() copies the tables of all pages, 22 ms of the window's thread for each GB that its runs take.
    const NoSignals lock;
    pid = ::vfork();
    if (pid == 0) exec_child(pointers.data(), in, out, err, report.write, parent);
  }
  if (pid < 0) throw Error({.code = ExitCode::resource, .file = argv[0], .found = ::strerror(errno)});
  ::setpgid(pid, pid);  // in both processes, so that neither can come too late

  // The write end of `report` closes at exec; a byte in it is the reason why exec failed.
  ::close(report.take(report.write));
  int error = 0;
  ssize_t got;
  do got = ::read(report.read, &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    throw Error(
        {.code = ExitCode::resource, .file = argv[0], .found = ::strerror(error), .expected = "a program to start"});
  }
  ChildProcess child;
  child.pid_ = pid;
  child.stdin_fd_ = in.take(in.write);
  child.stdout_fd_ = out.take(out.read);
  child.stderr_fd_ = err.take(err.read);
  child.ended_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // glibc has it in C only
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdin_fd_(std::exchange(other.stdin_fd_, -1)),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      stderr_fd_(std::exchange(other.stderr_fd_, -1)),
      ended_fd_(std::exchange(other.ended_fd_, -1)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !status_) {
    signal_group(SIGKILL);
    wait(std::chrono::seconds(5));
  }
  for (const int fd : {stdin_fd_, stdout_fd_, stderr_fd_, ended_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

void ChildProcess::close_stdin() {
  if (stdin_fd_ >= 0) ::close(std::exchange(stdin_fd_, -1));
}

void ChildProcess::signal_group(int signal) {
  if (pid_ > 0 && !status_) ::kill(-pid_, signal);
}

std::optional<int> ChildProcess::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (pid_ > 0 && !status_) {
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == pid_) {
      status_ = status;
      ::kill(-pid_, SIGKILL);  // what it started itself must not outlive it
    } else if (got < 0 && errno != EINTR) {
      status_ = 0;  // reaped elsewhere: nothing more can be learned
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return status_;
}

std::string describe_wait_status(int status) {
  const auto signal_text = [](int number) {
    return "killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  };
  if (WIFSIGNALED(status)) return signal_text(WTERMSIG(status));
  if (!WIFEXITED(status)) return "ended";
  const int code = WEXITSTATUS(status);
  std::string text = "exit code " + std::to_string(code);
  // A shell in between reports the signal that ended its child as 128 + number.
  if (code > 128 && code <= 128 + SIGSYS) text += ", " + signal_text(code - 128);
  return text;
}

}  // namespace kvscope
