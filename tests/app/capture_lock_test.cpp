// Two captures of one trace, and a capture over an older one: nothing is doubled, lost, or given up for nothing.

#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include "tests/app/capture_support.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

/// An engine that is there once it is let go: what happens to the trace meanwhile must be known then.
struct LateEngine {
  explicit LateEngine(const TemporaryFolder& folder)
      : script_(folder / "late-engine"), begun_(folder / "begun"), go_(folder / "go") {
    std::ofstream(script_) << "#!/bin/sh\n: > '" << begun_.string() << "'\nuntil [ -e '" << go_.string()
                           << "' ]; do sleep 0.02; done\nexec '" << fake_engine().string() << "' \"$@\"\n";
    fs::permissions(script_, fs::perms::owner_all);
  }
  std::string command() const { return script_.string(); }
  bool begun() const { return fs::exists(begun_); }  // whoever wants it has looked at the trace
  void go() const { std::ofstream{go_}; }

 private:
  fs::path script_, begun_, go_;
};

void wait_for_runs(const fs::path& trace, int n) {
  for (int i = 0; i < 1600; ++i) {
    if (fs::exists(trace) && inspect_trace(trace).n_runs >= n) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  FAIL("no run was committed within 40 seconds");
}

}  // namespace

TEST_CASE("capture --resume beside a capture that then ends leaves each prompt once") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder), trace = folder / "t.h5";
  Capture slow{folder, "t.h5", {"--quiet"}, " --slow " + std::to_string(200 * kSlowdown)};
  const LateEngine engine(folder);
  std::atomic<bool> ended = false;  // the second one; it must not get so far as to ask for its engine
  auto first = std::async(std::launch::async, [&] {
    const auto result = test::run({.argv = slow.argv(), .kill_when = [&] { return ended || engine.begun(); }});
    engine.go();
    return result;
  });
  wait_for_runs(trace, 1);
  Capture early{folder, "t.h5", {"--resume", "--quiet"}};
  early.engine = engine.command();
  const auto second = early.run();
  ended = true;
  CHECK(first.get().killed_by == SIGKILL);
  CHECK_FALSE(engine.begun());
  check_error_line(second, 3, "t.h5: another process is writing it");
  REQUIRE(Capture{folder, "t.h5", {"--resume", "--quiet"}}.run().exit_code == 0);
  check_same_trace(trace, whole);
}

TEST_CASE("capture --resume takes no trace that another capture began after it looked") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder), trace = folder / "t.h5";
  Capture late{folder, "t.h5", {"--resume", "--quiet"}};
  const LateEngine engine(folder);
  late.engine = engine.command();
  auto second = std::async(std::launch::async, [&] { return late.run(); });
  while (!engine.begun() && second.wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout) {
  }
  const int other = Capture{folder, "t.h5", {"--quiet"}}.run().exit_code;
  engine.go();
  REQUIRE(other == 0);
  check_error_line(second.get(), 3, "t.h5: another process has just created it");
  check_same_trace(trace, whole);
}

TEST_CASE("capture --overwrite leaves the old trace until the new one has a run") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  const std::string before = read_text(whole);
  Capture over{folder, "whole.h5", {"--overwrite", "--quiet"}};
  SECTION("a policy that does not fit") {
    over.policy = "kvpop:budget=1,sinks=8,window=64";
    CHECK(over.run().exit_code == 1);
  }
  SECTION("an engine that dies in the first run") {
    over.engine_options = " --die-at-token 1";
    CHECK(over.run().exit_code == 3);
  }
  SECTION("an engine that refuses the first run") {
    over.engine_options = " --fail run";
    CHECK(over.run().exit_code != 0);
  }
  SECTION("Ctrl+C in the first run") {
    over.engine_options = " --slow 2000";
    CHECK(over.run(1).exit_code == 130);
  }
  SECTION("kill -9 in the first run") {
    over.engine_options = " --slow 2000";
    CHECK(over.run(-1, 1).exit_code == -1);
    CHECK(read_text(whole) == before);
    over.engine_options = " --fail run";  // whoever comes next clears up
    CHECK(over.run().exit_code != 0);
  }
  CHECK(read_text(whole) == before);
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("A capture that ends before its first run leaves no file") {
  const TemporaryFolder folder;
  write_prompts(folder);
  Capture capture{folder, "t.h5", {"--quiet"}};
  capture.engine_options = GENERATE("--die-at-token 1", "--fail run", "--slow 2000");
  capture.engine_options.insert(0, " ");
  CHECK(capture.run(1).exit_code != 0);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("capture --overwrite takes the name with its first run, and survives kill -9 as any capture") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  fs::copy_file(whole, folder / "t.h5");
  Capture over{folder, "t.h5", {"--overwrite", "--quiet"}, " --slow " + std::to_string(100 * kSlowdown)};
  CHECK(over.run_until_a_run().exit_code == -1);
  const TraceInfo info = inspect_trace(folder / "t.h5");
  CHECK(info.status == "partial");
  CHECK(info.n_runs > 0);
  REQUIRE(Capture{folder, "t.h5", {"--resume", "--quiet"}}.run().exit_code == 0);
  check_same_trace(folder / "t.h5", whole);
}

TEST_CASE("Nobody overwrites a trace that a capture is writing") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder), trace = folder / "t.h5";
  Capture slow{folder, "t.h5", {"--quiet"}, " --slow " + std::to_string(150 * kSlowdown)};
  auto first = std::async(std::launch::async, [&] { return slow.run(); });
  wait_for_runs(trace, 1);
  check_error_line(Capture{folder, "t.h5", {"--overwrite", "--quiet"}}.run(), 3, "another process is writing it");
  check_error_line(kvscope_run({"run", sample_model().string(), "--prompt", "x", "--engine", fake_engine().string(),
                                "--trace", trace.string(), "--overwrite", "--max-tokens", "1", "--quiet"}),
                   3, "another process is writing it");
  check_error_line(kvscope_run({"merge", whole.string(), "-o", trace.string(), "--overwrite", "--quiet"}), 3,
                   "another process is writing it");
  CHECK(first.get().exit_code == 0);
  check_same_trace(trace, whole);
}

TEST_CASE("What a command reads is never what it writes") {
  const TemporaryFolder folder;
  const fs::path prompts = write_prompts(folder), whole = undisturbed(folder);
  const std::string text = read_text(prompts), trace = read_text(whole);
  check_error_line(Capture{folder, "p.jsonl", {"--overwrite", "--quiet"}}.run(), 2, "which is also an input");
  fs::copy_file(whole, folder / "a.csv");
  fs::create_hard_link(folder / "a.csv", folder / "b.csv");
  fs::create_symlink("a.csv", folder / "c.csv");
  for (const char* name : {"a.csv", "b.csv", "c.csv"})
    check_error_line(
        kvscope_run({"export", (folder / "a.csv").string(), "-o", (folder / name).string(), "--overwrite"}), 2,
        "which is also an input");
  fs::copy_file(whole, folder / "d.figure.csv");
  check_error_line(kvscope_run({"figure", "--preset", "kvpop-fig6", (folder / "d.figure.csv").string(), "-o",
                                (folder / "d.svg").string(), "--overwrite"}),
                   2, "d.figure.csv: the output file is");
  check_error_line(kvscope_run({"run", sample_model().string(), "--prompt-file", prompts.string(), "--engine",
                                fake_engine().string(), "--trace", prompts.string(), "--overwrite", "--quiet"}),
                   2, "which is also an input");
  CHECK(read_text(prompts) == text);
  for (const char* name : {"a.csv", "b.csv", "c.csv", "d.figure.csv"}) CHECK(read_text(folder / name) == trace);
  CHECK_FALSE(fs::exists(folder / "d.svg"));
}

TEST_CASE("figure replaces none of its four files unless told to, and leaves what is the same") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const std::string whole = undisturbed(folder).string();
  const auto figure = [&](const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"figure", "--preset", "kvpop-fig6", whole, "-o", (folder / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return kvscope_run(words);
  };
  const std::string name = GENERATE("a.svg", "a.figure.csv", "a.json", "a.tex");
  std::ofstream(folder / name) << "precious";
  check_error_line(figure("a.svg"), 2, name + ": it exists; hint: --overwrite replaces it");
  CHECK(read_text(folder / name) == "precious");
  CHECK(files_in(folder.path()) == 3);
  REQUIRE(figure("a.svg", {"--overwrite"}).exit_code == 0);
  CHECK(read_text(folder / name) != "precious");
  CHECK(figure("a.pdf").exit_code == 0);  // its numbers and recipe are there already
  CHECK(kvscope_run({"figure", (folder / "a.json").string(), "-o", (folder / "a.svg").string()}).exit_code == 0);
}
