#pragma once
// A child process with pipes on its three standard streams.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace kvscope {

/// Starts a program in a process group of its own, so that everything it starts can be ended with it, and asks the
/// kernel to kill it when this process dies. The kernel's promise is tied to the thread that called start(): call it
/// from a thread that lives as long as the child should (the main thread).
class ChildProcess {
 public:
  /// argv[0] is looked up in PATH if it has no slash. Throws Error (resource) when it cannot be started, naming why.
  static ChildProcess start(const std::vector<std::string>& argv);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills the group if it still runs, reaps the child, closes the pipes.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int stdin_fd() const { return stdin_fd_; }
  /// The child reads to the end of what it was given.
  void close_stdin();
  int stdout_fd() const { return stdout_fd_; }
  int stderr_fd() const { return stderr_fd_; }
  /// Readable once the process has ended (not those it started); -1 on a kernel without such a thing.
  int ended_fd() const { return ended_fd_; }
  /// Sends a signal to the whole group; nothing happens after the child was reaped.
  void signal_group(int signal);
  /// The wait status once it has ended, nullopt if it has not within `timeout`.
  std::optional<int> wait(std::chrono::milliseconds timeout);

 private:
  ChildProcess() = default;
  pid_t pid_ = -1;
  int stdin_fd_ = -1, stdout_fd_ = -1, stderr_fd_ = -1, ended_fd_ = -1;
  std::optional<int> status_;
};

/// "exit code 3", "killed by signal 9 (Killed)": a wait status in words.
std::string describe_wait_status(int status);

}  // namespace kvscope
