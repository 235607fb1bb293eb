// Two policies are compared at one budget and by a number that a larger budget does not raise, unless a person wants otherwise;
// and what a budget would keep is not said of a run that had another.

#include <catch2/catch.hpp>
#include <cmath>

#include "app/workspace/workspace.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::fake;
using test::random_run;
using test::skip_without_display;
using test::TemporaryFolder;
using test::WindowDriver;
using test::Xvfb;

namespace {

std::string saved(const TemporaryFolder& folder, const std::string& name, const RunRecord& run) {
  const std::string path = (folder / name).string();
  save_trace(path, run, false);
  return path;
}

void choose_policy(WindowDriver& window, const std::string& policy) {
  window.click("policy.combo");
  window.click("policy.choice." + policy);
  window.frames(3);
}

std::string budget_of(WindowDriver& window) {
  const auto policy = PolicySpec::parse(window.state()["parameters"]["policy"].get<std::string>());
  return policy.budget ? policy.to_string().substr(0, policy.to_string().find(',')) : "none";
}

}  // namespace

// KVpop 25 %, SP-KV, DMS, SnapKV: the last was SnapKV at 50 % beside A's 25 %.
WINDOW_TEST("After a policy without a budget the next one begins with the last budget, and A's is offered beside it") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=40%,sinks=4,window=4"}});
  window.command("run.max_tokens", {{"n", 60}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.frames(3);
  CHECK(window.text("policy.budget_of_a").empty());  // it is A's
  choose_policy(window, "streaming");
  CHECK(budget_of(window) == "none");
  choose_policy(window, "snapkv");
  CHECK_THAT(budget_of(window), Catch::StartsWith("snapkv:keep=0.4"));
  window.command("policy.set", {{"budget", 0.8}, {"kind", "keep"}});
  CHECK(window.text_soon("policy.budget_of_a", "A") == "A has 40 %");
  window.click("policy.budget_of_a");
  window.frames(3);
  CHECK_THAT(budget_of(window), Catch::StartsWith("snapkv:keep=0.4"));
  CHECK(window.text("policy.budget_of_a").empty());
}

// "A: 283 of 566 tokens kept, a factor of 2." stood there while A kept 226.
TEST_CASE(
    "A trace that is opened brings its policy into the panel, and what another budget would keep is not what A kept") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const RunRecord run = random_run(3, {.policy = "kvpop:keep=40%,sinks=4,window=16"});
  const int kept =
      static_cast<int>(std::lround(mean(head_metric(run, Metric::cache_share, run.queries() - 1)) * run.queries()));
  const Xvfb display;
  WindowDriver window(display, {.engine = "exit 0", .words = {saved(folder, "a.h5", run)}});
  window.wait({{"/files_busy", false}, {"/a/status", "complete"}});
  CHECK(PolicySpec::parse(window.state()["parameters"]["policy"].get<std::string>()) == run.policy);
  const std::string fact = "(A kept " + std::to_string(kept) + ")";
  CHECK(window.text_soon("policy.budget_words_a", fact) == "40 % of A's 180 tokens would be 72 " + fact + ".");
  window.command("policy.set", {{"budget", 0.5}, {"kind", "keep"}});
  CHECK(window.text_soon("policy.budget_words_a", "90") == "50 % of A's 180 tokens would be 90 " + fact + ".");
  window.command("policy.set", {{"budget", 4}, {"kind", "compression"}});
  CHECK_THAT(window.text_soon("policy.budget_words_a", "45"), Catch::Contains("A's 180 tokens would be 45 " + fact));
  window.command("policy.set", {{"budget", 100}, {"kind", "tokens"}});
  CHECK_THAT(window.text_soon("policy.budget_words_a", "100"), Catch::Contains("would be 100 " + fact));
  CHECK(window.text("policy.budget_of_a") == "A has 40 %");
}

TEST_CASE("A trace that is opened sets the policy of the next run, of whatever kind it is") {
  test::Program program;
  const TemporaryFolder folder;
  const PolicySpec before = program.session.parameters().policy;
  int n = 0;
  for (const char* policy : {"threshold:threshold=0.2,sinks=4,window=16", "streaming:sinks=2,window=30",
                             "kvpop:budget=40,sinks=4,window=16", "kvpop:keep=30%,sinks=4,window=16"}) {
    const RunRecord run = random_run(5, {.policy = policy});
    program.session.traces().open(saved(folder, std::to_string(n++) + ".h5", run));
    program.settle();
    CHECK(program.session.parameters().policy == run.policy);
    CHECK_FALSE(program.session.preview().shown());
  }
  CHECK(program.session.parameters().policy != before);
  REQUIRE(program.session.next_run().last_budget());
  CHECK(program.session.next_run().last_budget()->value == 0.3);
}

TEST_CASE(
    "Beside B the map opens on recall above chance, which a larger budget does not raise, unless a person chose a metric") {
  const bool chosen = GENERATE(false, true);
  test::Program program;
  app::Session& session = program.session;
  const TemporaryFolder folder;
  if (chosen) program.run("view.metric", {{"metric", "cache_share"}});
  session.traces().open(saved(folder, "a.h5", random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"})));
  program.settle();
  session.traces().open(saved(folder, "b.h5", random_run(3, {.policy = "kvpop:budget=120,sinks=4,window=16"})));
  program.settle();
  program.run("run.compare", {{"a", 1}, {"b", 2}});
  test::poll_until(session, [&] { return chosen || session.selection().metric == Metric::above_chance; });
  CHECK(session.selection().metric == (chosen ? Metric::cache_share : Metric::above_chance));
  CHECK(session.selection().metric_chosen == chosen);
  CHECK(session.selection().map.fit == !chosen);
  program.run("run.compare", {{"a", 1}, {"b", 0}});
  test::poll_until(session, [&] { return chosen || session.selection().metric != Metric::above_chance; });
  CHECK(session.selection().metric == (chosen ? Metric::cache_share : Metric::recall));
}

TEST_CASE("The layout of the head board has the study's view where a study is open, and no empty one where none is") {
  test::Program program;
  program.run("layout.allocate");
  CHECK(program.ui.arrangement == app::arrangement_of({"head_board", "comparison"}));
  program.run("layout.study");
  CHECK(program.ui.arrangement == app::arrangement_of({"study", "layer_head_map"}));
}

TEST_CASE(
    "Matching A's cache size gives the policy as many tokens as A held, says why where it cannot, and is undone") {
  test::Program program;
  app::Session& session = program.session;
  app::Workspace workspace{session, program.ui, program.ui, {.trace_program = "", .wake = [] {}}};
  add_workspace_commands(program.commands, workspace);
  CHECK_THROWS_WITH(program.run("policy.match_cache"), Catch::Contains("There is no run A."));
  const RunRecord a = random_run(3, {.policy = "threshold:threshold=0.3,sinks=4,window=16"});
  const int held = static_cast<int>(std::lround(tokens_in_cache(a, a.queries() - 1)));
  session.runs().put_back({.id = 1, .run = std::make_shared<const RunRecord>(a), .own = true});
  session.runs().show(1, 0);
  workspace.begin();
  const auto policy = [&] { return session.parameters().policy; };

  program.run("policy.set", {{"policy", "kvpop:keep=90%,sinks=2,window=20"}});
  program.run("policy.match_cache");
  CHECK(policy().to_string().starts_with("kvpop:budget=" + std::to_string(held) + ",sinks=2,window=20"));
  const RunRecord next = random_run(9, {.policy = policy().to_string()});
  CHECK(tokens_in_cache(next, next.queries() - 1) == Approx(held));
  CHECK(program.commands.find("edit.undo")->title == "Undo budget 90 % to " + std::to_string(held) + " tokens");
  program.run("edit.undo");
  CHECK(policy() == PolicySpec::parse("kvpop:keep=90%,sinks=2,window=20"));

  program.run("policy.set", {{"policy", "streaming:sinks=3"}});
  program.run("policy.match_cache");
  CHECK(policy() == PolicySpec::parse("streaming:sinks=3,window=" + std::to_string(held - 3)));
  program.run("policy.set", {{"policy", "threshold:threshold=0.1"}});
  CHECK_THROWS_WITH(program.run("policy.match_cache"), Catch::Contains("its size follows from the text."));
  CHECK(policy() == PolicySpec::parse("threshold:threshold=0.1"));
}
