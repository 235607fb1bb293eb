// The window cannot be used wrongly: what a run needs is said before it, and what fails takes nothing away.

#include <catch2/catch.hpp>
#include <filesystem>

#include "app/support/trace_open.h"
#include "tests/app/window_driver.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

const std::filesystem::path kGates = test::in_source("samples/gates/kvscope-tiny");

json command_of(WindowDriver& window, const std::string& id) {
  const json all = window.request({{"query", "commands"}});
  for (const json& command : all["commands"]) {
    if (command["id"] == id) return command;
  }
  return nullptr;
}

bool can_run(WindowDriver& window) { return command_of(window, "run.start")["enabled"]; }

/// A short prompt that is counted, on a model that is there.
void ready(WindowDriver& window) {
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  window.command("prompt.set", {{"text", "one two three four five six seven eight nine ten"}});
  window.wait({{"/parameters/prompt_tokens", {{"at_least", 10}}}});
  window.command("run.max_tokens", {{"n", 8}});
}

void set_policy(WindowDriver& window, const std::string& policy) {
  window.command("policy.set", {{"policy", policy}});
  window.frames(3);
}

std::string policy_now(WindowDriver& window) { return window.state()["parameters"]["policy"]; }

void run_to_end(WindowDriver& window) {
  window.command("run.start");
  window.wait({{"/running", false}});
}

}  // namespace

// The trap of a first prompt: two dead runs, and a slider with one legal value.
TEST_CASE("What stands in the way of a run is said beside Run, and one click removes it") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  ready(window);
  set_policy(window, "kvpop:keep=40%");
  CHECK(can_run(window));
  CHECK(window.text("run.obstacle").empty());
  CHECK(window.text("policy.window.locked") == "64: the delay this scorer was trained with");

  set_policy(window, "kvpop:budget=31");
  CHECK_FALSE(can_run(window));
  CHECK(window.text("run.obstacle") == "A budget of 31 tokens is too small: sinks and window need 64.");
  CHECK(window.text("policy.refusal").empty());  // it is said once
  CHECK(window.text("run.remedy.0") == "Raise to 64");
  window.key("ctrl+r");
  CHECK(window.state()["runs"].empty());  // no dead run
  window.click("run.remedy.0");
  CHECK_THAT(policy_now(window), Catch::Contains("budget=64"));
  CHECK(can_run(window));

  set_policy(window, "kvpop:keep=40%,window=14");
  CHECK(window.text("run.obstacle") == "The scorer was trained with a window of 64 tokens, not 14.");
  window.click("run.remedy.0");
  CHECK(can_run(window));

  set_policy(window, "full");
  window.command("run.max_tokens", {{"n", 5000}});
  window.frames(3);
  CHECK_THAT(window.text("run.remedy.0"), Catch::StartsWith("Shorten the answer to "));
  window.click("run.remedy.0");
  CHECK(can_run(window));
  window.command("run.max_tokens", {{"n", 8}});

  std::string text;
  for (int i = 0; i < 2500; ++i) text += " größer";
  window.command("prompt.set", {{"text", text}});
  window.wait({{"/parameters/prompt_tokens", {{"at_least", 2049}}}});
  window.frames(3);
  CHECK_THAT(window.text("run.obstacle"), Catch::Contains("the model's context holds 2048."));
  CHECK(window.text("run.remedy.0") == "Shorten to 2040");
  window.click("run.remedy.0");
  CHECK(can_run(window));
  CHECK(window.state()["parameters"]["prompt_tokens"].get<int>() > 1800);

  window.command("prompt.set", {{"text", ""}});
  window.frames(3);
  CHECK(window.text("run.obstacle") == "There is no prompt.");
  window.click("run.remedy.0");
  CHECK_FALSE(window.state()["parameters"]["prompt"].get<std::string>().empty());
}

TEST_CASE("A policy whose gate is missing says so before the run and offers to load one") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  ready(window);
  set_policy(window, "kvzap");
  CHECK_FALSE(can_run(window));
  CHECK_THAT(window.text("run.obstacle"), Catch::Contains("None is loaded"));
  CHECK(window.text("run.remedy.0") == "Load a gate ...");
  const json start = command_of(window, "run.start");
  CHECK_THAT(start["why_not"].get<std::string>(), Catch::Contains("None is loaded"));
  window.click("run.remedy.0");
  window.wait({{"/ui/dialog", "gate.open"}});
}

TEST_CASE("A hybrid of more heads than the model has is told beside Run, and the window lives") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  ready(window);
  set_policy(window, "hybrid:heads=c,count=510");
  CHECK_FALSE(can_run(window));
  CHECK_THAT(window.text("run.obstacle"), Catch::Contains("KV heads, not 510."));
  window.click("run.remedy.0");
  window.frames(3);
  CHECK(can_run(window));
  CHECK_THAT(window.text("policy.heads_note"), Catch::Contains("C: drawn at random with the seed"));
}

TEST_CASE("Decode again and replay are judged by A's tokens, not by what the prompt says now") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  ready(window);
  set_policy(window, "full");
  run_to_end(window);
  window.command("prompt.set", {{"text", ""}});
  CHECK_FALSE(can_run(window));
  CHECK(command_of(window, "run.decode_again")["enabled"].get<bool>());
  set_policy(window, "kvpop:budget=5");
  CHECK_FALSE(command_of(window, "run.decode_again")["enabled"].get<bool>());
  CHECK_FALSE(command_of(window, "run.replay")["enabled"].get<bool>());
  CHECK(command_of(window, "run.replay_as_b")["why_not"] == "There is no run B.");
}

TEST_CASE("Beside Decode again stands that the open model is not A's, and one click opens A's") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  ready(window);
  set_policy(window, "streaming:window=4");
  run_to_end(window);
  const auto other = window.folder() / "other-model";
  test::link_sample_model(other);
  window.command("model.open", {{"path", other.string()}});
  window.wait({{"/model", "other-model"}, {"/engine", "ready"}});
  const std::string why = "The open model is other-model; A's is kvscope-tiny.";
  CHECK(can_run(window));
  CHECK(command_of(window, "run.decode_again")["why_not"] == why);
  CHECK(command_of(window, "run.fork")["why_not"] == why);
  set_policy(window, "streaming:window=2");
  window.wait({{"/b/preview", true}});
  window.frames(2);
  CHECK(window.text("run.obstacle") == why);
  CHECK(window.text("policy.refusal").empty());
  CHECK(window.text("policy.preview_note") == "Preview: this policy uses no scores.");
  window.click("run.remedy.0");
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  CHECK(command_of(window, "run.decode_again")["enabled"].get<bool>());
}

TEST_CASE("A run that the engine refuses leaves A and B as they were, and one that fails at first leaves the welcome") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--fail run:tova")});
  ready(window);
  set_policy(window, "tova:keep=50%,window=4");
  run_to_end(window);
  window.frames(3);
  CHECK(window.state()["a"].is_null());
  CHECK_THAT(window.state()["banners"][0]["text"].get<std::string>(), Catch::Contains("The run failed"));
  set_policy(window, "full");
  run_to_end(window);
  window.wait({{"/a/status", "complete"}});
  const json a = window.state()["a"];
  window.command("selection.set", {{"token", 3}});
  set_policy(window, "tova:keep=50%,window=4");
  run_to_end(window);
  CHECK(window.state()["a"] == a);
  CHECK(window.state()["selection"]["token"] == 3);
  window.command("run.decode_again");
  window.wait({{"/running", false}});
  CHECK(window.state()["a"] == a);
  CHECK((window.state()["b"].is_null() || window.state()["b"]["preview"].get<bool>()));
  CHECK(window.state()["runs"].size() == 4);
}

TEST_CASE("A model that cannot be loaded leaves the one that is open, with its runs and its prompt's count") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--fail load:broken")});
  ready(window);
  set_policy(window, "full");
  run_to_end(window);
  const auto broken = window.folder() / "broken";
  test::link_sample_model(broken);
  window.command("file.open", {{"path", broken.string()}});
  window.wait({{"/banners", {{"contains", "could not be loaded"}}}, {"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  CHECK_THAT(window.state()["banners"][0]["text"].get<std::string>(), Catch::Contains("The previous model stays open"));
  CHECK(window.state()["a"]["status"] == "complete");
  window.wait({{"/parameters/prompt_tokens", {{"at_least", 10}}}});
  run_to_end(window);
  CHECK(window.state()["runs"].size() == 2);
}

WINDOW_TEST("Opening a gate's folder adds the gate to the open model and sets the policy that it was trained for") {
  ready(window);
  window.command("file.open", {{"path", (kGates / "wg-kv-0.01").string()}});
  window.wait({{"/gate", "wg-kv-0.01"}, {"/engine", "ready"}, {"/model", "kvscope-tiny"}});
  CHECK(policy_now(window).starts_with("wg-kv"));
  CHECK(window.state()["banners"].empty());
  // Neither a model nor a gate: nothing happens to the model.
  std::filesystem::create_directories(window.folder() / "empty");
  window.command("file.open", {{"path", (window.folder() / "empty").string()}});
  window.wait({{"/banners", {{"contains", "without a model, a gate or a training curve"}}}});
  CHECK(window.state()["model"] == "kvscope-tiny");
}

TEST_CASE("The command that is copied of a run does the same run again, by the gate that was chosen in the window") {
  if (skip_without_display()) return;
  if (test::real_engine().empty()) return test::skip("no engine is built");
  const Xvfb display;
  WindowDriver window(display, {});
  ready(window);
  window.command("gate.open", {{"path", (kGates / "sp-kv-0.02").string()}});
  window.wait({{"/gate", "sp-kv-0.02"}, {"/engine", "ready"}});
  window.command("policy.set", {{"policy", "sp-kv:threshold=0.4,window=4"}});
  run_to_end(window);
  const auto makes_it_again = [&](int id) {
    const std::string line = window.command("run.copy_command", {{"id", id}});
    CHECK_THAT(line, Catch::Contains(" --gate "));
    const std::string name = "run" + std::to_string(id) + ".h5";
    const std::string saved = (window.folder() / name).string(), again = (window.folder() / ("again-" + name)).string();
    window.command("trace.save", {{"id", id}, {"path", saved}});
    window.wait({{"/files_busy", false}, {"/runs", {{"contains", name}}}});
    const std::string script =
        test::kvscope().string() + line.substr(std::string("kvscope").size()) + " --trace " + again;
    const auto result = test::run({.argv = {"/bin/sh", "-c", script}});
    CAPTURE(script, result.err);
    REQUIRE(result.exit_code == 0);
    const RunRecord a = TraceReader("", saved).load(0), b = TraceReader("", again).load(0);
    CHECK(a.ids == b.ids);
    CHECK(a.prompt_len == b.prompt_len);
    CHECK(a.prompt_text == b.prompt_text);
    CHECK(a.policy == b.policy);
    CHECK(a.evict_at == b.evict_at);
    CHECK(a.changes == b.changes);
    return line;
  };
  makes_it_again(1);
  window.command("run.replay");
  window.wait({{"/running", false}, {"/b/id", 2}, {"/b/status", "complete"}});
  CHECK_THAT(makes_it_again(2), Catch::Contains(" --answer-ids "));
  window.command("run.fork", {{"q", 10}});
  window.wait({{"/running", false}, {"/b/id", 3}, {"/b/status", "complete"}});
  makes_it_again(3);
}
