// A command that starts a program: on a command line it does, in a file never.
#include "engine/core/record/pipe_gate.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/record/asked_json.h"
#include "engine/core/record/command_line.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"
#include "tests/support/temp_folder.h"

namespace kvscope {
namespace {

constexpr const char* kCommand = "pipe:python my.py --key SECRET";

RunRecord run_with(const std::string& given) {
  RunRecord run = test::random_run(3);
  Asked asked = *run.asked;
  asked.gates = {{.given = given, .name = gate_name(given)}};
  run.asked = std::make_shared<const Asked>(std::move(asked));
  return run;
}

}  // namespace

TEST_CASE("pipe: neither a trace nor a study has the command of a scorer", "[core][gate][pipe]") {
  const RunRecord run = run_with(kCommand);
  const std::string text = asked_text(run);
  CHECK(text.find("SECRET") == std::string::npos);
  const Asked back = asked_of_text(run, text);
  CHECK(back.gates.front().given == "pipe:COMMAND");
  CHECK(gates_in_study({kCommand, "wg-kv-0.01"}) == std::vector<std::string>{gate_name(kCommand), "wg-kv-0.01"});
}

TEST_CASE("pipe: a run that a scorer ended keeps the reason without the command", "[core][gate][pipe]") {
  const Error error({.file = kCommand, .found = "the scorer stopped: exit code 3"});
  CHECK(line_in_files(error) == "pipe:COMMAND: the scorer stopped: exit code 3");
}

TEST_CASE("pipe: a trace that names a command is refused", "[core][gate][pipe]") {
  const RunRecord run = run_with(kCommand);
  std::string text = asked_text(run);
  text.replace(text.find("pipe:COMMAND"), 12, "pipe:rm -r x");
  const std::string line = test::error_of([&] { asked_of_text(run, text); });
  CHECK(line.find("\"pipe:rm -r x\", a command; expected a path or a name: a file starts no program") !=
        std::string::npos);
}

TEST_CASE("pipe: the name of a scorer tells two commands apart and says neither", "[core][gate][pipe]") {
  CHECK(gate_name(kCommand) == gate_name(kCommand));
  CHECK(gate_name(kCommand) != gate_name("pipe:python other.py"));
  CHECK(gate_name(kCommand).size() == std::string("pipe-12345678").size());
}

TEST_CASE("pipe: a gate's file of kind pipe is refused", "[core][gate][pipe]") {
  const test::TempFolder folder;
  std::ofstream(folder.path() / "gate.json")
      << R"({"format": "kvscope-gate", "version": 1, "kind": "pipe", "command": "touch mark"})";
  std::ofstream(folder.path() / "gate.safetensors") << "";
  CHECK(test::error_of([&] { load_gate(folder.path()); }).find("pipe") != std::string::npos);
}

}  // namespace kvscope
