#include "tests/fuzz/trace_fork.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"

// Sections that -fsanitize=fuzzer makes: how often each edge was taken, and where each is in the code.
extern "C" {
extern std::uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];
extern const std::uintptr_t __start___sancov_pcs[], __stop___sancov_pcs[];
// Of a build with sanitizers; and of one that measures coverage.
[[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());
[[gnu::weak]] void __asan_report_load8(const void* address);
[[gnu::weak]] int __llvm_profile_write_file();
}

namespace kvscope::fuzz {
namespace {

constexpr int kOurs = 1, kTooLongInHdf5 = 198, kHdf5s = 199;
constexpr int kSecondsOfHdf5 = 2, kSeconds = 5;

/// What the child leaves to the fuzzer.
struct Left {
  std::uint8_t* counters;
  std::size_t n_counters = static_cast<std::size_t>(__stop___sancov_cntrs - __start___sancov_cntrs);
  std::uintptr_t first = UINTPTR_MAX, last = 0;  // of our code
  int faults = 0, too_long = 0;

  Left() {
    void* shared = ::mmap(nullptr, n_counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    counters = static_cast<std::uint8_t*>(shared);
    for (const std::uintptr_t* pc = __start___sancov_pcs; pc < __stop___sancov_pcs; pc += 2) {
      first = std::min(first, *pc), last = std::max(last, *pc);
    }
    // The sanitizer's own code is in this program, too; its frames must not look like ours.
    if (is_ours(reinterpret_cast<std::uintptr_t>(&__asan_report_load8))) std::abort();
    void* frame;
    ::backtrace(&frame, 1);  // loads what it needs now, not in a handler
    try {
      inspect_trace("/nowhere");  // starts HDF5
    } catch (const Error&) {
    }
  }
  ~Left() {
    std::fprintf(stderr, "in libhdf5: %d faults, %d times more than %d s\n", faults, too_long, kSecondsOfHdf5);
  }
  bool is_ours(std::uintptr_t pc) const { return pc >= first && pc <= last; }
};

Left& left() {
  static Left left;
  return left;
}

bool is_in_hdf5(void* frame) {
  Dl_info found{};
  return ::dladdr(frame, &found) != 0 && found.dli_fname && std::strstr(found.dli_fname, "libhdf5");
}

/// Whose the first frame is below those of the handler that asks: those are ours, and the sanitizer's or the C library's
/// stand between.
bool is_hdf5s() {
  void* frames[96];
  const int n = ::backtrace(frames, 96);
  const auto is_ours = [&](int i) { return left().is_ours(reinterpret_cast<std::uintptr_t>(frames[i])); };
  int i = 0;
  while (i < n && !is_ours(i)) ++i;  // the sanitizer's backtrace()
  while (i < n && is_ours(i)) ++i;
  for (; i < n; ++i) {
    if (is_in_hdf5(frames[i])) return true;
    if (is_ours(i)) return false;
  }
  return false;
}

[[noreturn]] void leave(int status) {
  std::memcpy(left().counters, __start___sancov_cntrs, left().n_counters);
  if (__llvm_profile_write_file) __llvm_profile_write_file();
  ::_exit(status);
}

void on_death() { leave(is_hdf5s() ? kHdf5s : kOurs); }
void on_abort(int) { leave(is_hdf5s() ? kHdf5s : kOurs); }
void on_second(int) {
  static int seconds = 0;
  ++seconds;
  if (seconds >= kSecondsOfHdf5 && is_hdf5s()) leave(kTooLongInHdf5);
  if (seconds < kSeconds) return;
  std::fprintf(stderr, "more than %d s\n", kSeconds);
  leave(kOurs);
}

[[noreturn]] void be_child(const std::function<void()>& read) {
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(on_death);
  ::signal(SIGABRT, on_abort);
  ::signal(SIGPROF, on_second);
  const itimerval second{{1, 0}, {1, 0}};
  ::setitimer(ITIMER_PROF, &second, nullptr);
  try {
    read();
  } catch (const Error& error) {
    const bool is_line = *error.what() != '\0' && !std::strchr(error.what(), '\n');
    if (is_line && error.code() != ExitCode::internal) leave(0);
    std::fprintf(stderr, "internal, or not one line: %s\n", error.what());
    leave(kOurs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "an exception that is no Error: %s\n", error.what());
    leave(kOurs);
  }
  leave(0);
}

}  // namespace

std::string read_in_fork(const std::function<void()>& read) {
  Left& all = left();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) be_child(read);
  int status = 0;
  rusage used{};
  while (::wait4(child, &status, 0, &used) < 0) {
  }
  std::memcpy(__start___sancov_cntrs, all.counters, all.n_counters);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  all.faults += code == kHdf5s, all.too_long += code == kTooLongInHdf5;
  if (used.ru_maxrss >= 1 << 20) return std::to_string(used.ru_maxrss / 1024) + " MiB";
  if (code == 0 || code == kHdf5s || code == kTooLongInHdf5) return "";
  return "the reading child ended with wait status " + std::to_string(status);
}

}  // namespace kvscope::fuzz
