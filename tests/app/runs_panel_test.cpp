// The list of runs: its room, and what it calls each run.

#include <algorithm>
#include <catch2/catch.hpp>

#include "app/session/run_titles.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/shell_quote.h"
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

TEST_CASE("A run under given budgets of heads says so in its title") {
  RunRecord even = run_under("kvpop:budget=40,sinks=4,window=16"), given = even;
  test::set_heads(given, &HeadRule::top_k, std::vector<std::int32_t>{10, 20, 30, 20, 20, 20});
  CHECK_THAT(title_of({entry_of(1, even), entry_of(2, given)}, 2), Catch::Contains("KVpop 40 tokens, given budgets"));
  CHECK_THAT(title_of({entry_of(1, even), entry_of(2, given)}, 1), !Catch::Contains("given"));
}

TEST_CASE("A hybrid's title has how many of its heads are global, which no parameter says") {
  RunRecord few = run_under("full"), many = few;
  few.policy = many.policy = PolicySpec::parse("hybrid:heads=d");
  test::make_local(few, {0, 1, 1, 1, 1, 0}), test::make_local(many, {0, 0, 0, 1, 1, 0});
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

TEST_CASE("A replay, a fork and a resumed run say of which run their tokens are") {
  const RunRecord run = run_under("kvpop:budget=40,sinks=4,window=16");
  using Kind = RunOrigin::Kind;
  const auto given = [&run](Kind kind, int q = -1) {
    RunRecord other = run;
    Asked asked = *run.asked;
    asked.origin = {.kind = kind, .of = run.asked->key, .title = "KVpop 40 tokens", .q = q};
    asked.key = key_of(asked, "", "");
    other.asked = std::make_shared<const Asked>(asked);
    return other;
  };
  const auto beside = [&](const RunRecord& other) { return title_of({entry_of(3, run), entry_of(5, other)}, 5); };
  const auto alone = [&](const RunRecord& other) { return title_of({entry_of(5, other)}, 5); };
  CHECK_THAT(beside(given(Kind::replay)), Catch::StartsWith("replay of run 3: KVpop"));
  CHECK_THAT(beside(given(Kind::fork, 12)), Catch::StartsWith("fork of run 3 at query 12: KVpop"));
  CHECK_THAT(beside(given(Kind::resumed, 20)), Catch::StartsWith("continuation of run 3 at query 20: KVpop"));
  CHECK_THAT(beside(run), Catch::StartsWith("KVpop"));
  // Of a run that is not open, what it was called.
  CHECK_THAT(alone(given(Kind::replay)), Catch::StartsWith("replay of \"KVpop 40 tokens\": KVpop"));
  CHECK_THAT(alone(given(Kind::fork, 12)), Catch::StartsWith("fork of \"KVpop 40 tokens\" at query 12: KVpop"));
  const auto titles = app::run_titles({entry_of(3, run), entry_of(5, given(Kind::replay))});
  CHECK_THAT(titles.at(5).hint, Catch::Contains("its tokens were given"));
}

TEST_CASE("A replay whose source no record names is that of the last run before it with the same tokens") {
  const RunRecord run = run_under("kvpop:budget=40,sinks=4,window=16");
  RunRecord replay = run, longer = run;
  replay.asked =
      std::make_shared<const Asked>(Asked{.request = run.asked->request, .origin = {.kind = RunOrigin::Kind::replay}});
  longer.ids.push_back(1);
  const std::vector<app::RunEntry> several = {entry_of(1, longer), entry_of(2, run), entry_of(4, run),
                                              entry_of(5, replay)};
  CHECK_THAT(title_of(several, 5), Catch::StartsWith("replay of run 4: KVpop"));
  CHECK_THAT(title_of({several[0], several[3]}, 5), Catch::StartsWith("replay: KVpop"));
}

// It was listed as a replay: its command line has these words.
TEST_CASE("A prompt that names options of the command line changes neither titles nor commands") {
  RunRecord run = run_under("kvpop:budget=40,sinks=4,window=16");
  const std::string prompt =
      "In the shell one writes kvscope run --answer-ids 1,2 and --prompt-ids 3,4 --messages x --chat to replay";
  Asked asked{.request = {.prompt = prompt, .policy = run.policy, .max_tokens = 8}};
  run.prompt_text = prompt;
  run.asked = std::make_shared<const Asked>(asked);
  CHECK_THAT(title_of({entry_of(1, run)}, 1), Catch::StartsWith("KVpop"));
  const auto words = shell_words(command_line(run));
  CHECK(std::ranges::count(words, "--answer-ids") == 0);
  CHECK(words.back() == prompt);
  CHECK(words[words.size() - 2] == "--prompt");
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
