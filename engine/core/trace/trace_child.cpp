#include "engine/core/trace/trace_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/trace/trace_message.h"
#include "engine/core/trace/trace_spans.h"

// Not by whether __has_feature is there: gcc 13's library defines one that says no to everything.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVSCOPE_SANITIZED
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVSCOPE_SANITIZED
#endif
#endif

namespace kvscope {

namespace {

using namespace trace;

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

bool write_frame(MessageKind kind, std::string_view body) {
  MessageWriter head;
  head.put(static_cast<std::uint64_t>(body.size() + sizeof kind));
  head.put(static_cast<std::uint8_t>(kind));
  return write_all(head.bytes()) && write_all(body);
}

void limit(int resource, rlim_t value, rlim_t most) {
  const rlimit limits{value, most};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}
void limit(int resource, rlim_t value) { limit(resource, value, value); }

/// From now on; a child that its parent has lost must not run for ever.
void limit_cpu() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  limit(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + kCpuSeconds, RLIM_INFINITY);
}

void confine() {
  ::close_range(3, ~0u, 0);
#if !defined(KVSCOPE_SANITIZED)
  limit(RLIMIT_AS, rlim_t{4} << 30);  // the sanitizers' shadows need terabytes of address space
#endif
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 64);
  limit(RLIMIT_CORE, 0);
  // The thread that opened the trace reads it to its end: it is gone no sooner than it wants no more. A file that makes
  // HDF5 go round in circles must not outlive who asked.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/// What was sent, or an Error in its place; false if nobody listens.
template <typename Answer>
bool answer_with(const std::string& file, Answer answer) {
  MessageWriter out;
  try {
    return answer();
  } catch (const Error& error) {
    put_error(out, error.parts());
  } catch (const std::exception& error) {  // bad_alloc above all: the file asked for more than the limit
    put_error(out, {.file = file,
                    .found = std::string("could not be read: ") + error.what(),
                    .expected = "a whole KVScope trace"});
  }
  return write_frame(MessageKind::error, out.bytes());
}

/// Column by column: a large run would not fit the address space twice.
bool send_run(RunReader& reader, int run) {
  RunBlock block = reader.find(run);
  MessageWriter out;
  put_run(out, block);
  bool sent = write_frame(MessageKind::run, out.bytes());
  for (const auto& dataset : datasets_of(block.version)) {
    auto& column = block[dataset.id];
    reader.read(block, dataset);
    sent = sent && write_frame(MessageKind::column, {reinterpret_cast<const char*>(column.data()), column.size()});
    if (dataset.axes[0] != Axis::run) std::vector<std::byte>().swap(column);  // those say what is padding
  }
  return sent;
}

bool send_rows(const RunReader& reader) {
  MessageWriter out;
  put_rows(out, {reader.valid().extents, filled_of(reader.valid())});
  return write_frame(MessageKind::rows, out.bytes());
}

bool read_request(std::int32_t& run) {
  ssize_t n = 0;
  do {
    n = ::read(STDIN_FILENO, &run, sizeof run);  // four bytes of a socket come at once
  } while (n < 0 && errno == EINTR);
  return n == sizeof run;
}

}  // namespace

int trace_child_main(int argc, char** argv) {
  if (argc != 3) return static_cast<int>(ExitCode::usage);
  confine();
  limit_cpu();
  const std::string file = argv[2];
  std::optional<RunReader> reader;
  bool heard = answer_with(file, [&] {
    reader.emplace(file);
    MessageWriter out;
    put_info(out, reader->valid().info);
    return write_frame(MessageKind::info, out.bytes());
  });
  std::int32_t run = -1;
  while (heard && reader && read_request(run)) {
    limit_cpu();
    heard = answer_with(file, [&] { return run == kAskRows ? send_rows(*reader) : send_run(*reader, run); });
  }
  return heard ? 0 : static_cast<int>(ExitCode::resource);
}

}  // namespace kvscope
