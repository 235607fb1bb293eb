// A trace that was stopped anywhere and continued is the trace that was never stopped, byte for byte.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

constexpr int kRuns = 5;
const CaptureInfo kCapture{.n_prompts = kRuns, .prompts_hash = "0123", .request = "--policy full --max-tokens 4"};

TraceWriter::Options options(bool resume, int max_runs = kRuns) {
  return {.resume = resume, .max_runs = max_runs, .max_positions = 60, .capture = kCapture};
}

std::string bytes_of(const std::filesystem::path& path) { return read_file(path, std::size_t{1} << 30); }

std::string undisturbed() {
  const ScratchFolder folder;
  TraceWriter writer(folder / "whole.h5", formula_run(0).model, options(false));
  for (int i = 0; i < kRuns; ++i) writer.add(formula_run(i));
  writer.finish();
  return bytes_of(folder / "whole.h5");
}

/// The first `n` runs, as a killed writer leaves them, or one that was told to stop.
void write_beginning(const std::filesystem::path& path, int n, bool finish, int max_runs = kRuns) {
  TraceWriter writer(path, formula_run(0).model, options(false, max_runs));
  for (int i = 0; i < n; ++i) writer.add(formula_run(i));
  if (finish) writer.finish();
}

void go_on(const std::filesystem::path& path) {
  TraceWriter writer(path, formula_run(0).model, options(true));
  for (int i = writer.committed(); i < kRuns; ++i) writer.add(formula_run(i));
  writer.finish();
}

std::string error_of_resume(const std::filesystem::path& path, const ModelInfo& model) {
  try {
    TraceWriter(path, model, options(true));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ino_t inode_of(const std::filesystem::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_ino;
}

int files_in(const std::filesystem::path& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("trace resume: partial or finished early, at any run, it becomes the undisturbed trace byte for byte",
          "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  const int done = GENERATE(0, 1, 4, 5);
  const bool finished = GENERATE(false, true);
  CAPTURE(done, finished);
  write_beginning(path, done, finished);
  const auto before = inode_of(path);
  {
    TraceWriter writer(path, formula_run(0).model, options(true));
    CHECK(writer.committed() == done);
    const TraceInfo info = inspect_trace(path);  // it is whole again at once
    CHECK(info.status == "partial");
    CHECK(info.n_runs == done);
    CHECK((inode_of(path) == before) == !finished);  // a partial one is continued in place
  }
  for (int i = 0; i < done; ++i) CHECK(run_difference(load_trace(path, i), formula_run(i)) == "");
  go_on(path);
  CHECK(bytes_of(path) == undisturbed());
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("trace resume: where there is no trace yet, one begins", "[core][trace][resume]") {
  const ScratchFolder folder;
  go_on(folder / "t.h5");
  CHECK(bytes_of(folder / "t.h5") == undisturbed());
}

TEST_CASE("trace resume: a trace that was made with less room gets more", "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  write_beginning(path, 2, false, 2);
  go_on(path);
  CHECK(bytes_of(path) == undisturbed());
}

TEST_CASE("trace resume: what stands behind the committed runs is written over", "[core][trace][resume]") {
  // As a writer leaves it that is killed between its rows and their commit.
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  write_beginning(path, 3, false);
  const auto committed = bytes_of(path);
  {
    TraceWriter writer(path, formula_run(0).model, options(true));
    writer.add(formula_run(77));
  }
  const TraceInfo info = inspect_trace(path);
  REQUIRE(info.n_runs == 4);
  // `committed` is the one 8-byte cell that differs between counting 3 and 4 of the same rows.
  std::string bytes = bytes_of(path);
  int cells = 0;
  for (std::size_t at = 0; at + 8 <= committed.size(); ++at) {
    if (committed.compare(at, 8, std::string("\3\0\0\0\0\0\0\0", 8)) != 0) continue;
    if (bytes.compare(at, 8, std::string("\4\0\0\0\0\0\0\0", 8)) != 0) continue;
    bytes.replace(at, 8, committed, at, 8);
    ++cells;
  }
  REQUIRE(cells == 1);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(inspect_trace(path).n_runs == 3);
  go_on(path);
  CHECK(bytes_of(path) == undisturbed());
}

TEST_CASE("trace resume: two processes never write one file", "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  const ModelInfo model = formula_run(0).model;
  {
    TraceWriter first(path, model, options(false));
    first.add(formula_run(0));
    CHECK(contains(error_of_resume(path, model), "another process is writing it"));
  }
  {
    TraceWriter second(path, model, options(true));
    CHECK(contains(error_of_resume(path, model), "another process is writing it"));
  }
  go_on(path);
  CHECK(bytes_of(path) == undisturbed());
}

TEST_CASE("trace resume: leftovers of killed writers go, those of living ones and other files stay",
          "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  write_beginning(path, 1, false);
  const pid_t gone = start_process({"true"});
  wait_process(gone);
  const std::string dead = std::to_string(gone), alive = std::to_string(::getppid());
  for (const auto& name : {".t.h5." + dead + ".new", ".t.h5." + dead + ".packed", ".t.h5." + dead + ".live",
                           ".t.h5." + alive + ".new", ".t.h5." + dead + ".txt", ".other.h5." + dead + ".new"})
    std::ofstream(folder / name) << "x";
  go_on(path);
  CHECK_FALSE(std::filesystem::exists(folder / (".t.h5." + dead + ".new")));
  CHECK_FALSE(std::filesystem::exists(folder / (".t.h5." + dead + ".packed")));
  CHECK_FALSE(std::filesystem::exists(folder / (".t.h5." + dead + ".live")));
  CHECK(files_in(folder.path()) == 4);
}

TEST_CASE("trace: saving removes what a killed save of that name has left, its live file's own too", "[core][trace]") {
  const ScratchFolder folder;
  const pid_t gone = start_process({"true"});
  wait_process(gone);
  const std::string dead = std::to_string(gone), live = ".t.h5." + dead + ".live";
  for (const auto& name : {live, "." + live + "." + dead + ".new", "." + live + "." + dead + ".txt"})
    std::ofstream(folder / name) << "x";
  save_trace(folder / "t.h5", formula_run(0), false);
  CHECK_FALSE(std::filesystem::exists(folder / live));
  CHECK_FALSE(std::filesystem::exists(folder / ("." + live + "." + dead + ".new")));
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("trace resume: another model and a damaged file are refused as they are", "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  const ModelInfo model = formula_run(0).model;
  write_beginning(path, 2, true);
  const auto before = bytes_of(path);
  ModelInfo other = model;
  other.weights_hash = "ffff";
  CHECK(contains(error_of_resume(path, other), "another model"));
  CHECK(bytes_of(path) == before);
  std::filesystem::resize_file(path, before.size() / 2);
  CHECK(error_of_resume(path, model) != "");
  CHECK(bytes_of(path) == before.substr(0, before.size() / 2));
}

TEST_CASE("trace resume: killed again and again, it ends as the undisturbed trace", "[core][trace][resume][kill]") {
  const std::string writer = in_build("tests/core/trace_kill_writer");
  constexpr int kCaptures = 6, kMany = 8;
  Random random(7);
  int kills = 0;
  for (int capture = 0; capture < kCaptures; ++capture) {
    const ScratchFolder folder;
    const std::string seed = std::to_string(100 * capture), runs = std::to_string(kMany);
    REQUIRE(succeeds({writer, "write", (folder / "whole.h5").string(), seed, runs}));
    const auto path = folder / "killed.h5";
    int acknowledged = 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
      int output = -1;
      const pid_t pid = start_process({writer, "resume", path.string(), seed, runs}, &output);
      char byte;
      const int after = static_cast<int>(random.between(0, 2));
      int seen = 0;
      while (seen < after && ::read(output, &byte, 1) == 1) ++seen;
      ::usleep(static_cast<useconds_t>(random.below(12000)));
      ::kill(pid, SIGKILL);
      const int status = wait_process(pid);
      while (::read(output, &byte, 1) == 1) ++seen;
      ::close(output);
      acknowledged += seen;
      if (std::filesystem::exists(path)) {
        const int committed = inspect_trace(path).n_runs;
        CAPTURE(capture, attempt, committed, acknowledged);
        REQUIRE(committed >= acknowledged);
        acknowledged = committed;  // one may have been committed and not been told
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
      ++kills;
    }
    CHECK(bytes_of(path) == bytes_of(folder / "whole.h5"));
    CHECK(files_in(folder.path()) == 2);
  }
  CHECK(kills >= 10);
}

TEST_CASE("trace resume: page reads get room as they come, before a stop and after it", "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  const auto run = [](int i) {  // each has far more than those before it together
    return random_run(20, {.prompt_len = 2 << (2 * i), .n_new = 4, .page_reads = i > 0, .n_changes = i});
  };
  const auto open = [&] {
    return TraceWriter(path, run(0).model, {.resume = true, .max_runs = 5, .max_positions = 520});
  };
  const auto add = [&](TraceWriter& writer, int i) {
    RunRecord next = run(i);
    next.model = run(0).model;
    writer.add(next);
  };
  {
    TraceWriter writer = open();
    for (int i = 0; i < 3; ++i) add(writer, i);
  }
  {
    TraceWriter writer = open();
    REQUIRE(writer.committed() == 3);
    for (int i = 3; i < 5; ++i) add(writer, i);
    CHECK(inspect_trace(path).status == "partial");
    writer.finish();
  }
  REQUIRE(inspect_trace(path).n_runs == 5);
  std::int64_t reads = 0;
  for (int i = 0; i < 5; ++i) {
    RunRecord expected = run(i);
    expected.model = run(0).model;
    CHECK(run_difference(load_trace(path, i), expected) == "");
    reads += static_cast<std::int64_t>(expected.reads.size());
  }
  CHECK(inspect_trace(path).page_reads == reads);
  CHECK(inspect_trace(path).changed_runs == 4);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("trace resume: a trace that another process made between a look and the writing stays, and is told as that",
          "[core][trace][resume]") {
  const ScratchFolder folder;
  const auto path = folder / "t.h5";
  write_beginning(path, 2, true);
  const std::string before = bytes_of(path);
  try {
    TraceWriter(path, formula_run(0).model, options(false));
    FAIL("replaced");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::resource);
    CHECK(contains(error.what(), "another process has just created it"));
  }
  CHECK(bytes_of(path) == before);
  CHECK(files_in(folder.path()) == 1);
}
