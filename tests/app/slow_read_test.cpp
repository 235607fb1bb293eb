// A machine that is busy, and a disk that stands still: no good file is called bad for it.

#include <future>

#include "tests/app/capture_support.h"
#include "tests/app/preload.h"
#include "tests/app/window_driver.h"
#include "tests/support/folders.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

using Words = std::vector<std::string>;

/// Each reading child of it stands still for so long, at its start.
std::map<std::string, std::string> stalled(int seconds) {
  return {{"LD_PRELOAD", preload(fault_library("reading"))}, {"KVSCOPE_FAIL_SECONDS", std::to_string(seconds)}};
}

std::future<Result> start(Words words, std::map<std::string, std::string> environment = {}) {
  words.insert(words.begin(), test::kvscope().string());
  return std::async(std::launch::async, [words, environment] {
    return test::run({.argv = words, .environment = environment, .timeout = 300 * kSlowdown});
  });
}

void write_long_trace(const fs::path& path) {
  save_trace(path, random_run(1, {.prompt_len = 2000, .n_new = 200}), true);
}

}  // namespace

TEST_CASE("Fifty inspects of one trace at once are all right") {
  const TemporaryFolder folder;
  write_long_trace(folder / "a.h5");
  std::vector<std::future<Result>> all;
  for (int i = 0; i < 50; ++i) all.push_back(start({"inspect", (folder / "a.h5").string()}));
  for (auto& one : all) {
    const Result result = one.get();
    INFO(result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("A file on a disk that stands still for longer than its limit is read by every command that reads one") {
  const TemporaryFolder folder;
  write_prompts(folder, 2);
  const auto at = [&](const char* name) { return (folder / name).string(); };
  for (const char* shard : {"0/2", "1/2"}) {
    Capture part{folder, std::string("s") + shard[0] + ".h5", {"--quiet", "--shard", shard}};
    REQUIRE(part.run().exit_code == 0);
  }
  REQUIRE(Capture{folder, "a.h5", {"--quiet"}}.run().exit_code == 0);
  fs::copy_file(folder / "a.h5", folder / "b.h5");
  Words resume = Capture{folder, "a.h5", {"--resume", "--quiet"}}.words();
  const std::vector<Words> commands = {{"inspect", at("a.h5")},
                                       {"export", at("a.h5"), "-o", at("a.csv")},
                                       {"figure", "--preset", "kvpop-fig6", at("a.h5"), "-o", at("f.svg")},
                                       {"compare", at("a.h5"), at("b.h5")},
                                       {"heads", at("a.h5"), "--strategy", "b"},
                                       {"merge", at("s0.h5"), at("s1.h5"), "-o", at("m.h5")},
                                       resume};
  std::vector<std::future<Result>> all;
  for (const Words& words : commands) all.push_back(start(words, stalled(6)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Result result = all[i].get();
    CAPTURE(commands[i][0], result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("A line says what is waited for on a disk that stands still, and Ctrl+C ends the wait") {
  const TemporaryFolder folder;
  write_prompts(folder, 2);
  REQUIRE(Capture{folder, "a.h5", {"--quiet"}}.run().exit_code == 0);
  const fs::path trace = folder / "a.h5";
  const auto stopped_at_its_line = [&](const Words& words, const char* name) {
    const fs::path log = folder / name;
    Words argv = {"/bin/sh", "-c",         "log=$1; shift; exec \"$@\" 2> \"$log\"",
                  "sh",      log.string(), test::kvscope().string()};
    argv.insert(argv.end(), words.begin(), words.end());
    return std::async(std::launch::async, [argv, log] {
      Result result = test::run({.argv = argv, .environment = stalled(600), .interrupt_when = [log] {
                                   return fs::exists(log) && read_text(log).find("(10 s)\n") != std::string::npos;
                                 }});
      result.err = read_text(log);
      return result;
    });
  };
  auto inspect = stopped_at_its_line({"inspect", trace.string()}, "1.log");
  auto resume = stopped_at_its_line(Capture{folder, "a.h5", {"--resume"}}.words(), "2.log");
  const Result waited = inspect.get(), stopped = resume.get();
  const std::string line =
      "waiting for " + trace.string() + ": the machine is busy or the disk does not respond (10 s)\n";
  CHECK(waited.exit_code == 130);
  CHECK(waited.err == line + "error: cancelled\n");
  CHECK(stopped.err.find(line) != std::string::npos);
  check_error_line(stopped, 130, "a.h5: cancelled while reading");
}

TEST_CASE("The window says that it waits for a disk, goes on meanwhile, and gives the file up when told to") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  write_long_trace(folder / "a.h5");
  const Xvfb display;  // without the library that fails reads
  ::setenv("LD_PRELOAD", preload(fault_library("reading")).c_str(), 1);
  ::setenv("KVSCOPE_FAIL_SECONDS", "600", 1);
  WindowDriver window(display, {.engine = fake()});
  ::unsetenv("LD_PRELOAD");
  window.command("trace.open", {{"path", (folder / "a.h5").string()}});
  CHECK(window.text_soon("status", "the disk does not respond").find("a.h5") != std::string::npos);
  window.frames(5);
  window.click("button.file.give_up");
  window.wait({{"/banners", {{"contains", "cancelled while reading"}}}});
  window.command("trace.open", {{"path", (folder / "a.h5").string()}});
  CHECK(window.text_soon("status", "the disk does not respond").find("a.h5") != std::string::npos);
  window.key("ctrl+q", true);
  CHECK(window.exit_code() == 0);
}
