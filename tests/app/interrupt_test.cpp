// Ctrl+C, TERM and HUP at any moment: the exit code is 128 and the signal, and what is said is true.

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/support/random.h"
#include "tests/app/process.h"

using namespace kvscope;
using test::TemporaryFolder;

namespace {

struct Command {
  std::string name;
  std::vector<std::string> words;
};

std::string model() { return test::sample_model().string(); }
std::string engine(const std::string& options = "") { return test::fake_engine().string() + " " + options; }

/// A trace of 16 runs that a capture has left, and the prompts they are of.
void make_capture(const TemporaryFolder& folder) {
  std::ofstream prompts(folder / "p.jsonl");
  for (int i = 0; i < 16; ++i) prompts << nlohmann::json{{"prompt", "prompt " + std::to_string(i)}}.dump() << "\n";
  prompts.close();
  const auto made =
      test::kvscope_run({"capture", model(), (folder / "p.jsonl").string(), "-o", (folder / "t.h5").string(),
                         "--max-tokens", "3", "--engine", engine(), "--quiet"});
  REQUIRE(made.exit_code == 0);
}

constexpr int kOfEngine = 5, kCommands = 11;

/// Those of the engine first.
std::vector<Command> commands(const TemporaryFolder& folder) {
  const std::string trace = (folder / "t.h5").string(), prompts = (folder / "p.jsonl").string();
  return {
      {"run", {"run", model(), "--prompt", "one two", "--engine", engine("--slow 5"), "--max-tokens", "60"}},
      {"mute", {"run", model(), "--prompt", "x", "--engine", "sleep 60"}},
      {"score", {"score", model(), "--text", "one two", "--engine", engine()}},
      {"eval", {"eval", model(), "--engine", engine("--slow 100")}},
      {"doctor", {"doctor", "--engine", engine()}},
      {"resume", {"capture", model(), prompts, "-o", trace, "--max-tokens", "3", "--engine", engine(), "--resume"}},
      {"heads", {"heads", trace, "--strategy", "c"}},
      {"inspect", {"inspect", trace}},
      {"export", {"export", trace, "-o", (folder / "t.nc").string(), "--overwrite"}},
      {"what-if", {"what-if", trace, "streaming:sinks=1,window=2"}},
      {"merge", {"merge", trace, "-o", (folder / "m.h5").string(), "--overwrite"}},
  };
}

/// One try: interrupted after so long, the whole group as a terminal and a batch system do it. False: it had ended before.
bool check_moment(const Command& command, int signal, double seconds, int undisturbed) {
  std::vector<std::string> words = command.words;
  words.insert(words.begin(), test::kvscope().string());
  const test::Result result = test::run({.argv = words,
                                         .interrupt_after = seconds,
                                         .interrupt = signal,
                                         .whole_group = true,
                                         .timeout = 45 * test::kSlowdown});
  if (result.after_interrupt < 0) return false;
  INFO(command.name << ", signal " << signal << " after " << seconds << " s: exit " << result.exit_code << " in "
                    << result.after_interrupt << " s\n"
                    << result.err);
  // Before main() it dies of the signal, which a shell calls the same; in the last milliseconds it is done already.
  const bool ended_so = result.exit_code == 128 + signal || result.killed_by == signal;
  CHECK((ended_so || (result.exit_code == undisturbed && result.after_interrupt < 0.05 * test::kSlowdown)));
  CHECK(result.after_interrupt < 25 * test::kSlowdown);
  for (const char* lie : {"crashed", "not a greeting", "internal", "was killed", "nonsense", "HDF5"}) {
    CHECK(result.err.find(lie) == std::string::npos);
  }
  return true;
}

/// `n` random moments, close together at first and to the end of what the undisturbed command takes: where it had ended before
/// one, the next are drawn from less.
void check_moments(const Command& command, int n) {
  constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  constexpr double kFirst = 0.002, kLast = 0.8;
  std::vector<std::string> words = command.words;
  words.insert(words.begin(), test::kvscope().string());
  // doctor has an answer of its own on a machine that lacks something.
  const int undisturbed = command.words[0] == "doctor" ? test::run({.argv = words}).exit_code : 0;
  Random random(20261124);
  double last = kLast;
  int met = 0;
  for (int tries = 0; met < n && tries < 4 * n; ++tries) {
    const double moment = kFirst * std::pow(last / kFirst, random.uniform());
    if (check_moment(command, kSignals[tries % 3], moment, undisturbed)) {
      ++met;
    } else {
      last = std::max(2 * kFirst, 0.9 * moment);
    }
  }
  CAPTURE(command.name, last);
  CHECK(met == n);
}

}  // namespace

TEST_CASE("A signal at any of ten moments ends a command of the engine with 128 and its number, and says the truth") {
  const TemporaryFolder folder;
  const int i = GENERATE(range(0, kOfEngine));
  check_moments(commands(folder)[i], 10);
}

TEST_CASE("A signal at any of ten moments ends a reader of traces with 128 and its number, and says the truth") {
  const TemporaryFolder folder;
  make_capture(folder);
  const int i = GENERATE(range(kOfEngine, kCommands));
  check_moments(commands(folder)[i], 10);
}

TEST_CASE("A signal at any of 200 moments ends every command so", "[.][interrupt_moments]") {
  const TemporaryFolder folder;
  make_capture(folder);
  REQUIRE(commands(folder).size() == kCommands);
  for (const Command& command : commands(folder)) check_moments(command, 200);
}

TEST_CASE("A command that nohup started outlives its terminal") {
  const auto result = test::run({.argv = {"/usr/bin/nohup", test::kvscope().string(), "run", model(), "--prompt", "one",
                                          "--engine", engine("--slow 20"), "--max-tokens", "40"},
                                 .interrupt_after = 0.5,
                                 .interrupt = SIGHUP});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}
