// The list of runs: its room, and what it calls each run.

#include <catch2/catch.hpp>

#include "app/session/run_titles.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

app::RunEntry entry_of(int id, const RunRecord& run, std::string name = "") {
  app::RunEntry entry{.id = id, .run = std::make_shared<const RunRecord>(run)};
  entry.name = std::move(name);
  return entry;
}

RunRecord run_under(const char* policy) { return test::random_run(3, {.policy = policy}); }

std::string title_of(const std::vector<app::RunEntry>& runs, int id) { return app::run_titles(runs).at(id).text; }

}  // namespace

TEST_CASE("A run's title has the parameters in which the runs of its policy differ, at their defaults too") {
  const app::RunEntry plain = entry_of(1, run_under("streaming"));
  const app::RunEntry narrow = entry_of(2, run_under("streaming:sinks=4,window=16"));
  CHECK(title_of({plain}, 1) == "StreamingLLM");
  CHECK(title_of({plain, narrow}, 1) == "StreamingLLM, window 64");
  CHECK(title_of({plain, narrow}, 2) == "StreamingLLM, window 16");
  const app::RunEntry other = entry_of(3, run_under("full"));
  CHECK(title_of({plain, other}, 1) == "StreamingLLM");  // another policy's runs differ in their policy
}

TEST_CASE("A hybrid's title has how many of its heads are global, which no parameter says") {
  RunRecord few = run_under("full"), many = few;
  few.policy = many.policy = PolicySpec::parse("hybrid:heads=d");
  few.local_heads = {0, 1, 1, 1, 1, 0}, many.local_heads = {0, 0, 0, 1, 1, 0};
  CHECK_THAT(title_of({entry_of(1, few), entry_of(2, many)}, 1), Catch::Contains(", 2 of 6 heads global"));
  CHECK_THAT(title_of({entry_of(1, few), entry_of(2, many)}, 2), Catch::Contains(", 4 of 6 heads global"));
}

TEST_CASE("Runs whose titles are equal have their sampling or model where these differ, and else their order") {
  const RunRecord run = run_under("kvpop:budget=40,sinks=4,window=16");
  RunRecord seeded = run, hot = run;
  seeded.sampling.seed = 7;
  hot.sampling.temperature = 0.5;
  CHECK(title_of({entry_of(1, run), entry_of(2, seeded)}, 2).ends_with(", seed 7"));
  CHECK(title_of({entry_of(1, run), entry_of(2, hot)}, 2).ends_with(", temperature 0.5"));
  const std::vector<app::RunEntry> equal = {entry_of(1, run), entry_of(4, run)};
  CHECK(title_of(equal, 1).ends_with(", 1 of 2"));
  CHECK(title_of(equal, 4).ends_with(", 2 of 2"));
  RunRecord asked = run;
  asked.prompt_text = "something else";  // in the row's second line
  CHECK_THAT(title_of({entry_of(1, run), entry_of(2, asked)}, 2), !Catch::Contains(" of 2"));
  CHECK_THAT(title_of({entry_of(1, run), entry_of(2, run, "mine")}, 2),
             Catch::StartsWith("mine: KVpop") && !Catch::Contains(" of 2"));
}

TEST_CASE("A replay and a fork say of which run's tokens they are") {
  RunRecord run = run_under("kvpop:budget=40,sinks=4,window=16"), replay = run, fork = run;
  run.command_line = "kvscope run m --prompt x";
  replay.command_line = "kvscope run m --prompt-ids 1 --answer-ids 2";
  const std::vector<app::RunEntry> replayed = {entry_of(3, run), entry_of(5, replay)};
  CHECK_THAT(title_of(replayed, 5), Catch::StartsWith("replay of run 3: KVpop"));
  // Not of an older one that goes on where this ends; of two with the same tokens the one before.
  RunRecord longer = run;
  longer.ids.push_back(1), longer.n_positions = longer.n_tokens();
  const std::vector<app::RunEntry> several = {entry_of(1, longer), entry_of(2, run), entry_of(4, run),
                                              entry_of(5, replay)};
  CHECK_THAT(title_of(several, 5), Catch::StartsWith("replay of run 4: KVpop"));
  CHECK_THAT(title_of({several[0], several[3]}, 5), Catch::StartsWith("replay: KVpop"));
  std::vector<app::RunEntry> asked = several;
  asked[3].of_run = 2;  // of this session it is known
  CHECK_THAT(title_of(asked, 5), Catch::StartsWith("replay of run 2: KVpop"));
  CHECK_THAT(app::run_titles(replayed).at(5).hint, Catch::Contains("its tokens were given"));
  CHECK_THAT(title_of(replayed, 3), Catch::StartsWith("KVpop"));
  CHECK_THAT(title_of({entry_of(5, replay)}, 5), Catch::StartsWith("replay: KVpop"));
  fork.command_line = "kvscope run m --prompt-ids 1";
  fork.prompt_len = run.prompt_len + 3;
  const std::string at = std::to_string(fork.prompt_len - 1);
  CHECK_THAT(title_of({entry_of(3, run), entry_of(5, fork)}, 5),
             Catch::StartsWith("fork of run 3 at query " + at + ": KVpop"));
  const std::string named = "fork of run 3 at query " + at;  // as the session names it
  CHECK_THAT(title_of({entry_of(3, run), entry_of(5, fork, named)}, 5), Catch::StartsWith(named + ": KVpop"));
  RunRecord same = run;
  same.command_line.clear();  // its line would be too long
  CHECK_THAT(title_of({entry_of(3, run), entry_of(5, same)}, 5), Catch::StartsWith("tokens of run 3: KVpop"));
}

// With five runs two lines of it were in sight.
TEST_CASE("The policy has eight lines beside a list of five runs, which scrolls to the run that is shown") {
  if (skip_without_display()) return;
  const auto [width, height] = GENERATE(std::pair(1280, 720), std::pair(1600, 1000));
  CAPTURE(width, height);
  const Xvfb display;
  const std::string size = std::to_string(width) + "x" + std::to_string(height);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", size}});
  window.wait({{"/model", {{"not", nullptr}}}});
  for (int i = 1; i <= 5; ++i) {
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/id", i}, {"/a/status", "complete"}});
  }
  window.command("run.show", {{"id", 1}});
  window.frames(8);
  const auto policy = window.rect("policy.combo"), list = window.rect("runs.list"), shown = window.rect("run.1.row");
  CHECK(list[1] - policy[1] >= 7 * (policy[3] + 6) + policy[3]);
  CHECK(list[3] <= height / 3.0);
  CHECK(shown[1] >= list[1]);
  CHECK(shown[1] + shown[3] <= list[1] + list[3]);
  CHECK_THAT(window.text("run.1.name"), Catch::EndsWith(", 1 of 5"));
  // It stays there where settings take the list's room.
  window.inputs({"mousemove", "--window", "{window}", "5", "5"});
  window.command("policy.all_parameters");
  window.frames(8);
  const auto less = window.rect("runs.list"), still = window.rect("run.1.row");
  CHECK(still[1] >= less[1]);
  CHECK(still[1] + still[3] <= less[1] + less[3]);
}
