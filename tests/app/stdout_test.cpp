// A reader of stdout that goes, and a disk that is full: what was decoded is kept, and the exit code tells.

#include <catch2/catch.hpp>

#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::TemporaryFolder;

namespace {

/// kvscope with these words, through a shell: `kvscope ... REST`.
test::Result in_shell(const std::string& words, const std::string& rest) {
  return test::run(
      {.argv = {"/bin/bash", "-c", "set -o pipefail; '" + test::kvscope().string() + "' " + words + rest}});
}

std::string run_words(const TemporaryFolder& folder, const std::string& more = "") {
  return "run '" + test::sample_model().string() +
         "' --prompt 'one two' --ignore-eos --max-tokens 300 --quiet --engine '" + test::fake_engine().string() +
         " --slow 10' --trace '" + (folder / "t.h5").string() + "' " + more;
}

/// The tokens of the run in t.h5.
int kept_tokens(const TemporaryFolder& folder) {
  const RunRecord run = load_trace(folder / "t.h5");
  return run.n_tokens() - run.prompt_len;
}

}  // namespace

TEST_CASE("A reader of stdout that goes ends the decode: what was decoded is saved and the exit code is 141") {
  const TemporaryFolder folder;
  const auto result = in_shell(run_words(folder, GENERATE("", "--json")), " | head -c 3");
  INFO(result.err);
  CHECK(result.exit_code == 141);
  CHECK(result.err.find("tokens were decoded and are kept in") != std::string::npos);
  CHECK(result.err.find("error") == std::string::npos);
  CHECK(kept_tokens(folder) > 0);  // two of them may have three bytes
  CHECK(kept_tokens(folder) < 300);
}

TEST_CASE("A full disk for stdout ends the decode: what was decoded is saved and the exit code is 3") {
  const TemporaryFolder folder;
  const auto result = in_shell(run_words(folder), " > /dev/full");
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK(result.err.find("are kept in") != std::string::npos);
  CHECK(result.err.find("error: stdout: No space left on device") != std::string::npos);
  CHECK(kept_tokens(folder) < 300);
}

TEST_CASE("A long job ends when nobody reads its rows any more") {
  const auto result = in_shell("bench decode --model '" + test::sample_model().string() + "' --quiet --engine '" +
                                   test::fake_engine().string() + " --slow 1500'",
                               " | head -n 1");
  CHECK(result.exit_code == 141);
  CHECK(test::count_lines(result.out) == 1);
}

TEST_CASE("Whatever writes to a full disk fails, the help too") {
  for (const char* words : {"--help", "--version", "run --help", "policies", "policies --json", "tokenize --help"}) {
    INFO(words);
    CHECK(in_shell(words, " > /dev/full").exit_code == 3);
  }
}

TEST_CASE("Both programs are linked and compiled so that a bug is hard to use") {
  if (test::kSlowdown > 1) return test::skip("a sanitizer's build has its checks in the place of these");
  std::vector<std::filesystem::path> programs = {test::kvscope()};
  if (!test::real_engine().empty()) programs.push_back(test::real_engine());
  for (const auto& program : programs) {
    const auto result = test::run(
        {.argv = {"/bin/sh", "-c",
                  "readelf -dlW '" + program.string() + "'; readelf -sW --dyn-syms '" + program.string() + "'"}});
    if (result.exit_code != 0) {
      WARN("no readelf here");
      return;
    }
    INFO(program.string());
    CHECK(result.out.find("GNU_RELRO") != std::string::npos);
    CHECK(result.out.find("BIND_NOW") != std::string::npos);
    CHECK(result.out.find("PIE") != std::string::npos);
    CHECK(result.out.find("__stack_chk_fail") != std::string::npos);
    CHECK(result.out.find("_chk@") != std::string::npos);  // _FORTIFY_SOURCE
  }
}
