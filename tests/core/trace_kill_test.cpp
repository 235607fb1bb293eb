// Processes that die, disks that fill: whatever was acknowledged stands in the file.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

const std::string kWriter = in_build("tests/core/trace_kill_writer");
const std::string kCheck = in_source("tests/core/check_trace.py");

/// A Python with h5py: $KVSCOPE_PYTHON or python3. Empty if there is none.
std::string python_with_h5py() {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  const std::string python = named && *named ? named : "python3";
  return succeeds({python, "-c", "import h5py, numpy"}, true) ? python : "";
}

struct Kill {
  std::filesystem::path path;
  std::uint64_t seed;
  int acknowledged = 0;  // runs whose commit the writer had reported when it was killed
  bool finished = false;
};

/// Lets a writer commit `after` of `n` runs, waits `microseconds` more and kills it. how: "write" or "group".
Kill kill_writer(const std::string& how, const std::filesystem::path& path, std::uint64_t seed, int n, int after,
                 int microseconds) {
  Kill kill{path, seed};
  int output = -1;
  const pid_t pid = start_process({kWriter, how, path.string(), std::to_string(seed), std::to_string(n)}, &output);
  char byte;
  while (kill.acknowledged < after && ::read(output, &byte, 1) == 1) ++kill.acknowledged;
  ::usleep(static_cast<useconds_t>(microseconds));
  ::kill(pid, SIGKILL);
  const int status = wait_process(pid);
  kill.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  while (::read(output, &byte, 1) == 1) ++kill.acknowledged;  // what it said before it died
  ::close(output);
  return kill;
}

/// How long this machine takes from one commit to the next, so that kills fall between commits on a fast one too.
int commit_microseconds(const std::filesystem::path& path, int n) {
  int output = -1;
  const pid_t pid = start_process({kWriter, "write", path.string(), "0", std::to_string(n)}, &output);
  std::vector<std::chrono::steady_clock::time_point> commits;
  char byte;
  while (::read(output, &byte, 1) == 1) commits.push_back(std::chrono::steady_clock::now());
  ::close(output);
  wait_process(pid);
  REQUIRE(static_cast<int>(commits.size()) == n);
  const auto all = std::chrono::duration_cast<std::chrono::microseconds>(commits.back() - commits.front());
  return 1 + static_cast<int>(all.count()) / (n - 1);
}

/// All committed runs are what their seeds say; gives their number, -1 if there is no file.
int check_runs(const std::filesystem::path& path, std::uint64_t seed) {
  if (!std::filesystem::exists(path)) return -1;
  const int n = inspect_trace(path).n_runs;
  for (int i = 0; i < n; ++i) {
    CAPTURE(path.string(), i);
    REQUIRE(run_difference(load_trace(path, i), formula_run(seed + i)) == "");
  }
  return n;
}

/// Captures with the n-th write call failing, n = first, first + step ... until there is no n-th call. Gives how many.
int inject_faults(int mode, int first, int step) {
  const ScratchFolder folder(true);
  int faults = 0;
  for (int n = first;; n += step) {
    const auto path = folder / (std::to_string(n) + ".h5");
    const int status =
        wait_process(start_process({kWriter, "fault", path.string(), std::to_string(mode), std::to_string(n), "0"}));
    CAPTURE(mode, n, status);
    REQUIRE(WIFEXITED(status));  // no signal: HDF5 did not crash on its way out
    const int code = WEXITSTATUS(status);
    const int committed = check_runs(path, 0);
    std::filesystem::remove(path);
    if (code == 0) {
      CHECK(committed == 3);
      return faults;
    }
    ++faults;
    if (code == 50) {
      CHECK(committed == 3);
    } else {
      REQUIRE(code >= 100);
      // No file is right only if not even the empty trace could be made.
      REQUIRE(committed >= (code == 100 ? -1 : code - 100));
    }
    if (mode == 4) CHECK(code == 50);  // the rest of a short write is written
  }
}

}  // namespace

TEST_CASE("trace: a writer killed at random moments loses no run that it committed, alone or with another",
          "[core][trace][kill]") {
  const auto [how, n_kills] = GENERATE(table<std::string, int>({{"write", 50}, {"group", 60}}));
  CAPTURE(how);
  const ScratchFolder folder;
  constexpr int kRuns = 6;
  const int commit = commit_microseconds(folder / "whole.h5", kRuns);
  Random random(20261121);
  std::vector<std::string> check = {"", kCheck};
  int in_the_middle = 0;
  for (int i = 0; i < n_kills; ++i) {
    // 0 ... 6 commits seen, then up to two commits' time, or 8 ms after the last: while the file is made, within a run,
    // between runs, while it is packed.
    const int after = static_cast<int>(random.between(0, kRuns));
    const int wait = static_cast<int>(random.below(after == kRuns ? 8000 : 2 * commit));
    const Kill kill = kill_writer(how, folder / (std::to_string(i) + ".h5"), 1000 * i, kRuns, after, wait);
    CAPTURE(i, after, wait, kill.acknowledged, kill.finished);
    const int committed = check_runs(kill.path, kill.seed);
    if (kill.acknowledged > 0) REQUIRE(committed >= kill.acknowledged);
    REQUIRE(committed <= kRuns);
    if (kill.finished) CHECK(inspect_trace(kill.path).status == "complete");
    if (committed < 0) continue;
    in_the_middle += !kill.finished && committed < kRuns;
    check.insert(check.end(), {kill.path.string(), std::to_string(kill.seed), std::to_string(kill.acknowledged)});
  }
  CHECK(in_the_middle >= 10);  // else the test did not test what it says

  check[0] = python_with_h5py();
  if (check[0].empty())
    return skip("no Python with h5py (set KVSCOPE_PYTHON): killed files were read by our reader only");
  CHECK(succeeds(check));
}

TEST_CASE("trace: runs that were appended count when they are committed", "[core][trace]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  TraceWriter writer(path, formula_run(0).model, {.max_runs = 4, .max_positions = 60});
  for (int i = 0; i < 3; ++i) writer.append(formula_run(i));
  CHECK(writer.committed() == 0);
  CHECK(check_runs(path, 0) == 0);
  writer.commit();
  CHECK(writer.committed() == 3);
  CHECK(check_runs(path, 0) == 3);
  writer.append(formula_run(3));
  CHECK(check_runs(path, 0) == 3);
  writer.finish();
  CHECK(check_runs(path, 0) == 4);
  CHECK(inspect_trace(path).status == "complete");
}

TEST_CASE("trace: stock h5py reads a finished trace, its default plot and the example in its README", "[core][trace]") {
  const std::string python = python_with_h5py();
  if (python.empty()) return skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const ScratchFolder folder;
  const auto path = (folder / "run.h5").string();
  REQUIRE(succeeds({kWriter, "write", path, "77", "5"}));
  CHECK(succeeds({python, kCheck, path, "77", "5"}));
  CHECK_FALSE(succeeds({python, kCheck, path, "78", "5"}, true));  // the check can fail
  CHECK_FALSE(succeeds({python, kCheck, path, "77", "6"}, true));

  TraceWriter writer(folder / "two.h5", random_run(1).model, {.max_runs = 2, .max_positions = 900});
  RunRecord longer = random_run(1, {.prompt_len = 600, .n_new = 300});
  longer.model = random_run(1).model;
  writer.add(longer);
  writer.add(random_run(2));
  writer.finish();
  CHECK(succeeds({python, kCheck, "--packed", (folder / "two.h5").string()}));
}

TEST_CASE("trace: write calls may fail in every way: committed runs stay and the error names the file",
          "[core][trace][fault]") {
  const int mode = GENERATE(1, 2, 3, 4);  // full for good, full once, I/O error for good, one short write
  // Every ninth call, other ones in each mode; the next test takes them all.
  CHECK(inject_faults(mode, 2 * mode, 9) >= 22);
}

TEST_CASE("trace: every single write call may fail in every way", "[core][trace][fault][.slow]") {
  CHECK(inject_faults(GENERATE(1, 2, 3, 4), 1, 1) >= 200);
}

TEST_CASE("trace: saving over an older trace while writes fail leaves the old one or the new one",
          "[core][trace][fault]") {
  const ScratchFolder folder(true);
  const auto path = folder / "run.h5";
  const RunRecord old_run = formula_run(9), new_run = formula_run(1);
  int n_old = 0, n_new = 0;
  for (int n = 1;; n += 3) {
    save_trace(path, old_run, true);
    const int status = wait_process(start_process({kWriter, "fault", path.string(), "1", std::to_string(n), "1"}));
    CAPTURE(n, status);
    REQUIRE(WIFEXITED(status));
    const RunRecord now = load_trace(path);
    const bool is_new = run_difference(now, new_run).empty();
    if (!is_new) REQUIRE(run_difference(now, old_run) == "");
    (is_new ? n_new : n_old)++;
    if (WEXITSTATUS(status) == 0) break;
  }
  CHECK(n_old >= 10);
  CHECK(n_new >= 1);
}

TEST_CASE("trace: a file-size limit is an error, not the end of the process, and committed runs stay",
          "[core][trace][fault]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  const int status = wait_process(start_process({kWriter, "limit", path.string()}));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 101);
  CHECK(check_runs(path, 0) == 1);
}
