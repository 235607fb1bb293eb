#include "tests/app/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/folders.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void exec(const Launch& launch, const fs::path& out, const fs::path& err) {
  for (const auto& [name, value] : launch.environment) {
    value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (!launch.folder.empty() && ::chdir(launch.folder.c_str()) != 0) ::_exit(126);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : launch.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

Result run(const Launch& launch) {
  const TemporaryFolder folder;
  const fs::path out = folder / "out", err = folder / "err";
  // Catch2's handlers must not hear, in the child, what is meant for the program that it becomes.
  sigset_t interrupts, before;
  ::sigemptyset(&interrupts);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&interrupts, number);
  ::sigprocmask(SIG_BLOCK, &interrupts, &before);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (launch.whole_group) ::setpgid(0, 0);
    exec(launch, out, err);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (launch.whole_group) ::setpgid(pid, pid);
  const auto start = std::chrono::steady_clock::now();
  double interrupted = -1;
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool is_time = launch.interrupt_after >= 0 && seconds > launch.interrupt_after;
    if (interrupted < 0 && (is_time || (launch.interrupt_when && launch.interrupt_when()))) {
      ::kill(launch.whole_group ? -pid : pid, launch.interrupt);
      interrupted = seconds;
    }
    if (seconds > launch.timeout || (launch.kill_when && launch.kill_when())) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .after_interrupt = interrupted < 0 ? -1 : seconds - interrupted,
          .out = read_text(out),
          .err = read_text(err),
          .cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
          .seconds = seconds,
          .max_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024};
}

fs::path kvscope() { return build_folder() / "bin" / "kvscope"; }
fs::path fake_engine() { return build_folder() / "bin" / "kvscope-fake-engine"; }
fs::path real_engine() {
  const fs::path engine = build_folder() / "bin" / "kvscope-engine";
  return fs::exists(engine) ? engine : fs::path();
}
fs::path sample_model() { return source_folder() / "samples" / "models" / "kvscope-tiny"; }

void link_sample_model(const fs::path& folder, const std::vector<std::string>& names) {
  fs::create_directories(folder);
  for (const std::string& name : names) fs::create_symlink(sample_model() / name, folder / name);
}

Result kvscope_run(const std::vector<std::string>& words) {
  std::vector<std::string> argv = {kvscope().string()};
  argv.insert(argv.end(), words.begin(), words.end());
  return run({.argv = argv});
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "kvscope-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int count_lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace kvscope::test
