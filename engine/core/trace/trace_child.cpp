#include "engine/core/trace/trace_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/file.h"
#include "engine/core/trace/trace_message.h"
#include "engine/core/trace/trace_model.h"
#include "engine/core/trace/trace_spans.h"

extern char** environ;

namespace kvscope {

namespace {

using namespace trace;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxMessage = static_cast<std::size_t>(kMaxRunBytes) + (std::size_t{64} << 20);

// --- what is sent ----------------------------------------------------------------------------------------------------

void put_model(MessageWriter& out, const ModelInfo& model) {
  visit_fields(model, [&](auto, const auto& value, auto) { out.put(value); });
}

ModelInfo get_model(MessageReader& in) {
  ModelInfo model;
  visit_fields(model, [&](auto, auto& value, auto) { in.get(value); });
  return model;
}

void put_error(MessageWriter& out, const Error::Parts& parts) {
  out.put(static_cast<std::uint8_t>(MessageKind::error));
  out.put(static_cast<int>(parts.code));
  for (const auto* text : {&parts.file, &parts.where, &parts.found, &parts.expected, &parts.hint}) out.put(*text);
}

[[noreturn]] void throw_sent_error(MessageReader& in) {
  Error::Parts parts;
  const int code = in.get<int>();
  if (code < static_cast<int>(ExitCode::usage) || code > static_cast<int>(ExitCode::internal)) throw BadMessage{};
  parts.code = static_cast<ExitCode>(code);
  for (auto* text : {&parts.file, &parts.where, &parts.found, &parts.expected, &parts.hint}) *text = in.text();
  if (parts.found.empty()) throw BadMessage{};
  throw Error(std::move(parts));
}

void put_info(MessageWriter& out, const TraceInfo& info) {
  out.put(static_cast<std::uint8_t>(MessageKind::info));
  out.put(info.version);
  out.put(info.status);
  put_model(out, info.model);
  visit_fields(info.capture, [&](auto, const auto& value) { out.put(value); });
  out.put(info.n_runs);
  out.put(info.planned_runs);
  for (const auto index : info.prompt_index) out.put(index);
  out.put(static_cast<int>(info.shards.size()));
  for (const auto& shard : info.shards) out.put(shard);
  out.put(info.created_by);
  out.put(info.git_revision);
  out.put(info.page_reads);
  out.put(info.changed_runs);
}

TraceInfo get_info(MessageReader& in) {
  TraceInfo info;
  info.version = in.get<int>();
  info.status = in.text();
  info.model = get_model(in);
  CaptureInfo& capture = info.capture;
  visit_fields(capture, [&](auto, auto& value) { in.get(value); });
  if (capture.n_prompts < 0 || capture.shard < 0 || capture.shard >= capture.n_shards) throw BadMessage{};
  info.n_runs = in.get<int>();
  info.planned_runs = in.get<int>();
  if (info.n_runs < 0 || info.planned_runs < 0) throw BadMessage{};
  for (int i = 0; i < info.n_runs; ++i) info.prompt_index.push_back(in.get<std::int32_t>());
  for (int n = in.get<int>(); n > 0; --n) info.shards.emplace_back(in.text());
  info.created_by = in.text();
  info.git_revision = in.text();
  info.page_reads = in.get<std::int64_t>();
  info.changed_runs = in.get<int>();
  return info;
}

RunRecord get_run(MessageReader& in, const std::string& file) {
  const ModelInfo model = get_model(in);
  check_model(model, file);
  RunBlock block;
  block.run = in.get<int>();
  block.version = in.get<int>();
  if (block.version < 1 || block.version > kVersion) throw BadMessage{};
  for (int axis = 0; axis < kAxes; ++axis) {
    block.slice.begin.size[axis] = in.get<std::int64_t>();
    auto& count = block.slice.count.size[axis] = in.get<std::int64_t>();
    // Keeps every product of three counts and an element size within 64 bits.
    if (count < 0 || count > kMaxRunBytes) throw BadMessage{};
  }
  for (auto& column : block.columns) {
    const auto bytes = std::as_bytes(std::span(in.text()));
    column.assign(bytes.begin(), bytes.end());
  }
  if (!in.at_end()) throw BadMessage{};
  return decode_run(block, model, file);
}

// --- the child -------------------------------------------------------------------------------------------------------

bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void limit(int resource, rlim_t value) {
  const rlimit limits{value, value};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

void confine() {
  ::close_range(3, ~0u, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, rlim_t{4} << 30);  // the sanitizers' shadows need terabytes of address space
#endif
  limit(RLIMIT_CPU, 60);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 16);
  limit(RLIMIT_CORE, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the parent's thread waits for this process, so it dies no sooner
}

/// The columns go out one by one: a second copy of a large run would not fit the address space.
bool send_run(const ValidTrace& valid, const RunBlock& block) {
  MessageWriter out;
  out.put(static_cast<std::uint8_t>(MessageKind::run));
  put_model(out, valid.info.model);
  out.put(block.run);
  out.put(block.version);
  for (int axis = 0; axis < kAxes; ++axis) {
    out.put(block.slice.begin.size[axis]);
    out.put(block.slice.count.size[axis]);
  }
  for (const auto& column : block.columns) {
    out.put(static_cast<std::uint64_t>(column.size()));
    if (!write_all(out.bytes()) || !write_all({reinterpret_cast<const char*>(column.data()), column.size()}))
      return false;
    out.clear();
  }
  return true;
}

// --- the parent ------------------------------------------------------------------------------------------------------

class Child {
 public:
  Child(const std::filesystem::path& program, const std::filesystem::path& path, const std::string& what)
      : path_(path) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, path, "open a pipe");
    output_ = FileHandle(ends[0]);
    const FileHandle writes(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
    // A crashing allocator writes to stderr; our own line says it better.
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string arguments[] = {program.string(), "--trace-child", path.string(), what};
    char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), nullptr};
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, Deaf().get(), argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      pid_ = -1;
      throw_errno(error, program, "start");
    }
  }
  ~Child() { wait(true); }

  /// All that the child wrote, once it has ended well. Throws Error if it crashed, hung or wrote too much.
  std::string read(const ChildLimits& limits) {
    const auto deadline = Clock::now() + limits.timeout;
    std::string bytes;
    std::string buffer(1 << 16, '\0');
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd poll{output_.get(), POLLIN, 0};
      const int ready = left > 0 ? ::poll(&poll, 1, static_cast<int>(std::min<long long>(left, INT32_MAX))) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) fail("reading it took longer than " + std::to_string(limits.timeout.count() / 1000.0) + " s");
      const auto n = ::read(output_.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      bytes.append(buffer, 0, static_cast<std::size_t>(n));
      if (bytes.size() > kMaxMessage) fail("more than 2 GiB of data");
    }
    const int status = wait(false);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) fail("reading it took too long");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) fail("reading it was stopped (time or memory)");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("the file crashed the HDF5 reader");
    return bytes;
  }

  [[noreturn]] void fail(std::string found) const {
    throw Error({.file = path_.string(), .found = std::move(found), .expected = "a whole KVScope trace"});
  }

 private:
  /// A terminal and a batch system send Ctrl+C and TERM to every process. They are for the parent, which then ends this
  /// one: a child that died of them would look like a damaged file.
  struct Deaf {
    posix_spawnattr_t attributes;
    Deaf() {
      sigset_t blocked;
      ::sigemptyset(&blocked);
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&blocked, number);
      posix_spawnattr_init(&attributes);
      posix_spawnattr_setsigmask(&attributes, &blocked);
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    }
    ~Deaf() { posix_spawnattr_destroy(&attributes); }
    const posix_spawnattr_t* get() const { return &attributes; }
  };
  int wait(bool kill_first) {
    int status = 0;
    if (pid_ < 0) return status;
    if (kill_first) ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  std::filesystem::path path_;
  FileHandle output_;
  pid_t pid_ = -1;
};

/// Runs the child and hands the body of an answer of kind `wanted` to `read`.
template <typename Read>
auto ask(const std::filesystem::path& program, const std::filesystem::path& path, const std::string& what,
         MessageKind wanted, const ChildLimits& limits, Read read) {
  Child child(program, path, what);
  const std::string bytes = child.read(limits);
  try {
    MessageReader in(bytes);
    const auto kind = static_cast<MessageKind>(in.get<std::uint8_t>());
    if (kind == MessageKind::error) throw_sent_error(in);
    if (kind != wanted) throw BadMessage{};
    return read(in);
  } catch (const BadMessage&) {
    child.fail("the file made its reader answer nonsense");
  }
}

}  // namespace

RunRecord load_trace_guarded(const std::filesystem::path& program, const std::filesystem::path& path, int run_index,
                             const ChildLimits& limits) {
  return ask(program, path, std::to_string(run_index), MessageKind::run, limits,
             [&](MessageReader& in) { return get_run(in, path.string()); });
}

TraceInfo inspect_trace_guarded(const std::filesystem::path& program, const std::filesystem::path& path,
                                const ChildLimits& limits) {
  return ask(program, path, "info", MessageKind::info, limits, [](MessageReader& in) { return get_info(in); });
}

int trace_child_main(int argc, char** argv) {
  if (argc != 4) return static_cast<int>(ExitCode::usage);
  confine();
  MessageWriter out;
  try {
    const std::string_view what = argv[3];
    const ValidTrace valid = open_valid(argv[2]);
    if (what == "info") {
      put_info(out, valid.info);
    } else {
      int run = -1;
      std::from_chars(what.data(), what.data() + what.size(), run);
      return send_run(valid, read_run(valid, run)) ? 0 : static_cast<int>(ExitCode::resource);
    }
  } catch (const Error& error) {
    put_error(out, error.parts());
  } catch (const std::exception& error) {  // bad_alloc above all: the file asked for more than the limit
    put_error(out, {.file = argv[2],
                    .found = std::string("could not be read: ") + error.what(),
                    .expected = "a whole KVScope trace"});
  }
  return write_all(out.bytes()) ? 0 : static_cast<int>(ExitCode::resource);
}

}  // namespace kvscope
