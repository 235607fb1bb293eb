#include "engine/core/trace/confined_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

// Not by whether __has_feature is there: gcc 13's library defines one that says no to everything.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVSCOPE_SANITIZED
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVSCOPE_SANITIZED
#endif
#endif

namespace kvscope::trace {

namespace {

constexpr rlim_t kMemory = rlim_t{4} << 30;
constexpr rlim_t kCpuSeconds = 60;  // of one answer; the parent does not wait as long

bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void limit(int resource, rlim_t value, rlim_t most) {
  const rlimit limits{value, most};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}
void limit(int resource, rlim_t value) { limit(resource, value, value); }

}  // namespace

bool write_frame(MessageKind kind, std::string_view body) {
  MessageWriter head;
  head.put(static_cast<std::uint64_t>(body.size() + sizeof kind));
  head.put(static_cast<std::uint8_t>(kind));
  return write_all(head.bytes()) && write_all(body);
}

void limit_cpu() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  limit(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + kCpuSeconds, RLIM_INFINITY);
}

ExitCode code_of_no_memory() {
  rlimit now{};
  return ::getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur < kMemory ? ExitCode::resource : ExitCode::bad_input;
}

void confine() {
  ::close_range(3, ~0u, 0);
#if !defined(KVSCOPE_SANITIZED)
  limit(RLIMIT_AS, kMemory);  // the sanitizers' shadows need terabytes of address space
#endif
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 64);
  limit(RLIMIT_CORE, 0);
  // The thread that opened the trace reads it to its end: it is gone no sooner than it wants no more. A file that makes
  // HDF5 go round in circles must not outlive who asked.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace kvscope::trace
