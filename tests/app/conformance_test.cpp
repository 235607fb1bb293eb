// kvscope doctor --conformance with engines that end, hang or are not there. What it reports of a lie is tested by
// tests/python/lies_test.py, with both engines.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using namespace kvscope;

namespace {

test::Result suite(const std::string& engine, const std::string& patience, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {test::kvscope().string(),      "doctor",   "--conformance", "--model",
                                    test::sample_model().string(), "--engine", engine};
  words.insert(words.end(), more.begin(), more.end());
  return test::run({.argv = words, .environment = {{"KVSCOPE_ENGINE_TIMEOUT", patience}}});
}

/// The last check has these words, and says that it is the last.
void check_ends_with(const test::Result& found, const std::string& words) {
  INFO(found.out << found.err);
  CHECK(found.exit_code == 3);
  const std::size_t at = found.out.find("fails       " + words);
  REQUIRE(at != std::string::npos);
  const std::string rest = found.out.substr(at);
  CHECK(rest.find("The remaining checks did not run.\n") < rest.find('\n'));
  CHECK(test::count_lines(rest) == 2);  // and the sum
  CHECK(found.seconds < 40);
}

std::string fake(const std::string& options) { return "'" + test::fake_engine().string() + "' " + options; }

}  // namespace

TEST_CASE("Conformance of an engine that does not start, or never greets, ends with one line") {
  check_ends_with(suite("exit 7", "20"), "greeting: the engine stopped: exit code 7");
  check_ends_with(suite("sleep 1000", "1"), "greeting: the engine did not answer for 1 s");
}

TEST_CASE("Conformance of an engine that dies in mid-run ends with one line") {
  check_ends_with(suite(fake("--die-at-token 3"), "20"), "run: a prompt as text: the engine stopped: exit code 137");
}

TEST_CASE("Conformance of an engine that answers nothing ends with one line") {
  const auto found = suite(fake("--hang"), "1");
  INFO(found.out << found.err);
  CHECK(found.exit_code == 3);
  CHECK(found.out.find("load: the model: no event for 1 s: request") != std::string::npos);
  CHECK(found.out.find("The remaining checks did not run.") != std::string::npos);
  CHECK(found.seconds < 40);
}

TEST_CASE("Conformance as JSON has the name, the result and the words of each check") {
  const auto found = suite(fake("--fail run"), "20", {"--json"});
  INFO(found.out << found.err);
  CHECK(found.exit_code == 3);
  const auto report = nlohmann::json::parse(found.out);
  CHECK(report["ok"] == false);
  CHECK(report["checks"][0]["name"] == "greeting");
  CHECK(report["checks"][0]["result"] == "ok");
  const auto& run = report["checks"][4];
  CHECK(run["name"] == "run: a prompt as text");
  CHECK(run["result"] == "fails");
  CHECK(run["text"].get<std::string>().find("it was told to fail at run") != std::string::npos);
}

TEST_CASE("A model or a gate for doctor needs --conformance") {
  for (const char* option : {"--model", "--gate"}) {
    const auto found = test::kvscope_run({"doctor", option, "x"});
    CHECK(found.exit_code == 1);
    CHECK(found.err.find("--conformance") != std::string::npos);
  }
}
