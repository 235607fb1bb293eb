// What the fuzzers start from and what they have found, read again by the ordinary build.

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "engine/core/support/json_file.h"
#include "tests/fuzz/conversation.h"
#include "tests/fuzz/format.h"
#include "tests/support/folders.h"

using namespace kvscope;

namespace {

namespace fs = std::filesystem;

/// Reads every file of corpus/NAME: each is read or refused in a line, within 5 s, all within a gigabyte.
void replay(const std::string& name) {
  const auto format = std::find_if(fuzz::formats().begin(), fuzz::formats().end(),
                                   [&](const fuzz::Format& f) { return f.name == name; });
  REQUIRE(format != fuzz::formats().end());
  int files = 0;
  fuzz::forget_peak();  // of the tests before
  for (const auto& entry : fs::directory_iterator(test::build_folder() / "tests/fuzz/corpus" / name)) {
    CAPTURE(entry.path().string());
    const auto start = std::chrono::steady_clock::now();
    CHECK(fuzz::read_anything(*format, read_file(entry.path(), std::size_t{64} << 20)) == "");
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 5);
    ++files;
  }
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  CHECK(used.ru_maxrss < 1 << 20);  // KiB
  CHECK(files >= 4);
}

}  // namespace

TEST_CASE("The fuzzers' safetensors files are read or refused in a line", "[fuzz]") { replay("safetensors"); }
TEST_CASE("The fuzzers' tokenizers are read or refused in a line", "[fuzz]") { replay("tokenizer"); }
TEST_CASE("The fuzzers' chat templates are read or refused in a line", "[fuzz]") { replay("chat_template"); }
TEST_CASE("The fuzzers' configs are read or refused in a line", "[fuzz]") { replay("config"); }
TEST_CASE("The fuzzers' pickles are read or refused in a line", "[fuzz]") { replay("pickle"); }
TEST_CASE("The fuzzers' archives are read or refused in a line", "[fuzz]") { replay("zip"); }
TEST_CASE("The fuzzers' messages are read or refused in a line", "[fuzz]") { replay("cbor"); }
// Until they did, no message of a fuzzer came as far as what a run is held to (engine/core/record/check.h).
TEST_CASE("The conversations that the fuzzer of messages begins with end in complete runs", "[fuzz]") {
  for (const char* name : {"answers-run", "answers-gate", "answers-read"}) {
    CAPTURE(name);
    const fs::path path = test::build_folder() / "tests/fuzz/corpus/cbor" / name;
    const RunRecord run = fuzz::run_of_messages(read_file(path, std::size_t{64} << 20));
    CHECK(run.status == RunStatus::complete);
    CHECK(run.n_tokens() > run.prompt_len);
  }
}
TEST_CASE("The fuzzers' traces are read or refused in a line", "[fuzz]") { replay("trace"); }
TEST_CASE("The fuzzers' recipes are read or refused in a line", "[fuzz]") { replay("recipe"); }
TEST_CASE("The fuzzers' gates are read or refused in a line", "[fuzz]") { replay("gate"); }
