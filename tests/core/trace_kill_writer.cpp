// The program that the trace tests kill, starve and use as guarded reader.
//
//   trace_kill_writer write PATH SEED N         N runs, formula_run(SEED + i); a byte on stdout after each is committed
//   trace_kill_writer resume PATH SEED N        the same, going on where PATH stops, if it is there
//   trace_kill_writer group PATH SEED N         the same as write, with two runs to a commit
//   trace_kill_writer fault PATH MODE N SINGLE  three runs while the N-th write fails; exit 100 + committed runs if
//                                               an Error of kind `resource` came that names PATH, 0 if all went well
//   trace_kill_writer limit PATH                a run, then a file-size limit, then runs; exit as for fault
//   trace_kill_writer cut PATH                  cuts the trace byte by byte and loads it each time: one line of Error
//                                               each. 0 if so; a length that hangs or crashes ends the process
//   trace_kill_writer --trace-child PATH        trace_child_main; --study-child PATH: study_child_main

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/slowdown.h"

namespace {

/// Which call fails and how. HDF5 is a shared library, so its calls of write, pwrite, ftruncate and fsync come here.
struct Fault {
  enum Mode { none, full_forever, full_once, io_error_forever, half_once } mode = none;
  long countdown = 0;
  bool fired = false;

  /// 0, or the errno with which this call is to fail.
  int next() {
    if (mode == none || (fired && (mode == full_once || mode == half_once))) return 0;
    if (!fired && --countdown > 0) return 0;
    fired = true;
    return mode == io_error_forever ? EIO : mode == half_once ? -1 : ENOSPC;
  }
} g_fault;

ssize_t faulty_write(std::size_t n, auto write) {
  const int error = g_fault.next();
  if (error == -1) return write(n > 1 ? n / 2 : n);  // a short write is no error; the caller has to go on
  if (error == 0) return write(n);
  errno = error;
  return -1;
}

int faulty_call(auto call) {
  const int error = g_fault.next();
  if (error <= 0) return call();
  errno = error;
  return -1;
}

}  // namespace

extern "C" {
ssize_t write(int fd, const void* data, std::size_t n) {
  return faulty_write(n, [&](std::size_t m) { return ::syscall(SYS_write, fd, data, m); });
}
ssize_t pwrite(int fd, const void* data, std::size_t n, off_t at) {
  return faulty_write(n, [&](std::size_t m) { return ::syscall(SYS_pwrite64, fd, data, m, at); });
}
ssize_t pwrite64(int fd, const void* data, std::size_t n, off_t at) { return pwrite(fd, data, n, at); }
int ftruncate(int fd, off_t size) noexcept {
  return faulty_call([&] { return static_cast<int>(::syscall(SYS_ftruncate, fd, size)); });
}
int ftruncate64(int fd, off_t size) noexcept { return ftruncate(fd, size); }
int fsync(int fd) {
  return faulty_call([&] { return static_cast<int>(::syscall(SYS_fsync, fd)); });
}
}

namespace {

using namespace kvscope;

constexpr int kLongest = 60;  // of formula_run

int write_runs(const char* path, std::uint64_t seed, int n, bool resume, int group) {
  TraceWriter writer(path, test::formula_run(seed).model,
                     {.overwrite = !resume, .resume = resume, .max_runs = n, .max_positions = kLongest});
  for (int i = writer.committed(); i < n; ++i) {
    writer.append(test::formula_run(seed + i));
    if ((i + 1) % group != 0 && i + 1 < n) continue;
    const int before = writer.committed();
    writer.commit();
    for (int run = before; run < writer.committed(); ++run)
      if (::write(STDOUT_FILENO, "+", 1) != 1) return 1;
  }
  writer.finish();
  return 0;
}

/// `words`: the system's, and nothing of how HDF5 tells it.
int status_of(const Error& error, const std::string& path, int committed, std::string_view words) {
  const std::string line = error.what();
  const auto has = [&](std::string_view part) { return line.find(part) != std::string::npos; };
  const bool good = error.code() == ExitCode::resource && has(path.substr(path.rfind('/') + 1)) && has(words) &&
                    has("free some space") && !has("errno") && !has("0x");
  if (!good) std::fprintf(stderr, "unexpected error: %s\n", error.what());
  return good ? 100 + committed : 99;
}

int write_with_fault(const std::string& path, int mode, long n, bool single) {
  int committed = 0;
  try {
    g_fault = {static_cast<Fault::Mode>(mode), n, false};
    if (single) {
      save_trace(path, test::formula_run(1), true);
    } else {
      TraceWriter writer(path, test::formula_run(0).model, {.max_runs = 3, .max_positions = kLongest});
      for (int i = 0; i < 3; ++i) {
        writer.add(test::formula_run(i));
        ++committed;
      }
      writer.finish();
    }
  } catch (const Error& error) {
    return status_of(error, path, committed,
                     mode == Fault::io_error_forever ? "Input/output error" : "No space left on device");
  }
  return g_fault.fired ? 50 : 0;  // 50: it fired, and all went well
}

int write_with_limit(const std::string& path) {
  int committed = 0;
  try {
    TraceWriter writer(path, test::formula_run(0).model, {.max_runs = 3, .max_positions = kLongest});
    for (int i = 0; i < 3; ++i) {
      writer.add(test::formula_run(i));
      ++committed;
      const rlimit small{8192, 8192};
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
  } catch (const Error& error) {
    return status_of(error, path, committed, "File too large");
  }
  return 0;
}

int load_all_lengths(const std::filesystem::path& path) {
  // Under the thread sanitizer, which has nothing to find in a reader of one thread that lengths differ in, every 16th
  // byte: all of them are 25 minutes there, 12 seconds in a release build.
  const std::uintmax_t step = test::kSlowdown >= 10 ? 16 : 1;
  for (auto size = std::filesystem::file_size(path); size > 0;) {
    size -= std::min(size, step);
    ::alarm(20);  // per length
    std::filesystem::resize_file(path, size);
    std::string line;
    try {
      load_trace(path);
    } catch (const Error& error) {
      if (error.code() == ExitCode::bad_input) line = error.what();
    }
    if (line.find(path.filename().string()) == std::string::npos || line.find('\n') != std::string::npos) {
      std::fprintf(stderr, "cut to %ju bytes: %s\n", size, line.empty() ? "no error of bad input" : line.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "--trace-child") return kvscope::trace_child_main(argc, argv);
  if (what == "--study-child") return kvscope::study_child_main(argc, argv);
  hdf5_start();
  if ((what == "write" || what == "resume" || what == "group") && argc == 5)
    return write_runs(argv[2], std::strtoull(argv[3], nullptr, 10), std::atoi(argv[4]), what == "resume",
                      what == "group" ? 2 : 1);
  if (what == "fault" && argc == 6)
    return write_with_fault(argv[2], std::atoi(argv[3]), std::atol(argv[4]), std::atoi(argv[5]));
  if (what == "cut" && argc == 3) return load_all_lengths(argv[2]);
  if (what == "limit" && argc == 3) return write_with_limit(argv[2]);
  return 1;
}
