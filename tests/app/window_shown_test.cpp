// What the window says is true: previews beside a run that goes on, changed policies, copied commands, exported heads.

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/core/record/command_line.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::TemporaryFolder;
using test::WindowDriver;
using test::Xvfb;

namespace {

/// The last query that the strip says its preview reaches; -1 where it names none, -2 without a preview.
int preview_reaches(WindowDriver& window) {
  const std::string legend = "strip.legend.underline: preview of A", reach = ", up to q ";
  const nlohmann::json answer = window.request({{"query", "items"}});
  for (const auto& item : answer["items"]) {
    const auto id = item.get<std::string>();
    if (!id.starts_with(legend)) continue;
    const std::string rest = id.substr(legend.size());
    return rest.starts_with(reach) ? std::stoi(rest.substr(reach.size())) : -1;
  }
  return -2;
}

std::string saved(const TemporaryFolder& folder, const char* name, const RunRecord& run) {
  const std::string path = (folder / name).string();
  save_trace(path, run, false);
  return path;
}

/// A second trace behind the one that the window began with.
void open_too(WindowDriver& window, const std::string& trace) {
  window.wait({{"/files_busy", false}, {"/a/status", "complete"}});
  window.command("trace.open", {{"path", trace}});
  window.wait({{"/files_busy", false}, {"/runs/1/status", "complete"}});
}

void show(WindowDriver& window, int id) {
  window.command("run.show", {{"id", id}});
  window.wait({{"/a/id", id}});
  window.frames(3);
}

}  // namespace

// W7: the preview froze at the size that the run had when the slider was moved, and was not said to.
TEST_CASE("The panel and the strip say of a preview that its run goes on and how far it reaches, and it goes on too") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 15")});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", "one two three four five six seven eight nine ten eleven twelve thirteen"}});
  window.command("policy.set", {{"policy", "kvpop:budget=100"}});
  window.command("run.max_tokens", {{"n", 600}});
  window.command("run.start");
  window.wait({{"/progress/phase", "decode"}, {"/progress/value", {{"at_least", 20}}}});
  CHECK(window.text("policy.preview_note").empty());
  window.command("policy.set", {{"policy", "kvpop:budget=80"}});
  window.wait({{"/preview/shown", true}});
  window.frames(3);
  CHECK(window.text("policy.preview_note") ==
        "Preview: what this policy would keep, estimated from A's scores and updated as A runs.");
  const int first = preview_reaches(window);
  REQUIRE(first >= 0);
  window.wait({{"/a/n_tokens", {{"at_least", first + 60}}}});
  window.frames(3);
  const int later = preview_reaches(window);
  CHECK(later >= first + 30);
  CHECK(later < window.state()["a"]["n_tokens"].get<int>());

  window.command("run.cancel");
  window.wait({{"/running", false}, {"/preview/shown", true}});
  for (int i = 0; i < 100 && preview_reaches(window) != -1; ++i) window.frames(1);
  CHECK(preview_reaches(window) == -1);  // of all of A
  CHECK(window.text("policy.preview_note") ==
        "Preview: estimated from A's recorded scores. Decode again to measure it.");
  window.command("policy.set", {{"policy", "streaming:sinks=4,window=50"}});
  window.wait({{"/preview/shown", true}, {"/preview/pending", false}});
  window.frames(3);
  CHECK(window.text("policy.preview_note") == "Preview: this policy uses no scores. Decode again to measure it.");
  window.click("button.preview.discard");
  CHECK(window.text("policy.preview_note").empty());
  CHECK(preview_reaches(window) == -2);
}

TEST_CASE("A pooled budget is chosen beside the budget, previewed at once, and named in the run's line") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const RunRecord run = test::random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16,capacity=pooled"});
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {saved(folder, "pooled.h5", run)}});
  window.wait({{"/a/status", "complete"}});
  window.command("policy.set", {{"parameter", "capacity"}, {"value", 0}});
  window.wait({{"/preview/shown", true}});
  window.frames(3);
  CHECK(window.text("run.1.name") == "KVpop 40 tokens, window 16, capacity pooled");
  CHECK(window.rect("policy.capacity").size() == 4);
  window.command("policy.set", {{"policy", "kvpop:budget=40,sinks=4,window=16,capacity=pooled"}});
  window.frames(3);
  CHECK(window.text("policy.preview_note").empty());  // A's own again
}

// W7: inspector, label and budget line stayed at the policy that the run began with, and nothing marked the change.
TEST_CASE("A run whose policy changed has both in its name, a flag where it did, and each at its queries") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const RunRecord run = test::random_run(3, {.n_changes = 1});
  REQUIRE(run.changes.size() == 1);
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {saved(folder, "changed.h5", run)}});
  window.wait({{"/a/status", "complete"}});
  window.frames(3);
  const auto tokens = [](const PolicySpec& policy) { return std::to_string(static_cast<int>(policy.budget->value)); };
  const int q = run.changes[0].q;
  CHECK(window.text("run.1.name") == "KVpop " + tokens(run.policy) + " tokens > " + tokens(run.changes[0].policy) +
                                         " tokens @ " + std::to_string(q));
  CHECK(window.rect("timeline.flag.0").size() == 4);
  for (const int at : {q - 1, q}) {
    window.command("scrub.to", {{"q", at}});
    window.frames(3);
    CHECK(window.text("inspector.policy.budget") == tokens(at < q ? run.policy : run.changes[0].policy) + " tokens");
  }
}

// W12: it copied the panel's policy and said that it had copied the command that does this run.
TEST_CASE("Copy as command puts A's own command on the clipboard, and the status line says of which run it is") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  RunRecord first = test::random_run(3), second = test::random_run(4);
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {saved(folder, "first.h5", first)}});
  open_too(window, saved(folder, "second.h5", second));
  window.command("policy.set", {{"policy", "quest:read=128"}});
  for (const int id : {1, 2}) {
    show(window, id);
    window.key("ctrl+shift+c");
    window.frames(3);
    CHECK(window.text("status") == "copied the command of run " + std::to_string(id));
    // What the clipboard holds is what a person pastes.
    const std::string expected = command_line(id == 1 ? first : second);
    const auto prompt = [&] { return window.state()["parameters"]["prompt"].get<std::string>(); };
    window.command("prompt.set", {{"text", "x"}});
    for (int i = 0; i < 20 && prompt() != expected; ++i) {
      if (!window.state()["ui"]["text_input"].get<bool>()) window.click("prompt.text");
      window.hold("ctrl", "a");
      window.hold("ctrl", "v");
    }
    CHECK(prompt() == expected);
    for (int i = 0; i < 20 && window.state()["ui"]["text_input"].get<bool>(); ++i) window.key("Escape");
  }
}

// W13: heads 0 to 5 were written by tie order, and "coverage 25.0 %" was said of them.
TEST_CASE("Ctrl+H refuses heads that only a tie would choose, and says of others what it will write before it does") {
  if (skip_without_display()) return;
  const TemporaryFolder folder;
  const std::string fixed =
      saved(folder, "fixed.h5", test::random_run(3, {.policy = "kvpop:budget=64,sinks=4,window=16"}));
  const std::string open =
      saved(folder, "open.h5", test::random_run(3, {.policy = "threshold:threshold=0,sinks=4,window=16"}));
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {fixed}});
  open_too(window, open);
  show(window, 1);
  window.key("ctrl+h");
  window.frames(3);
  const nlohmann::json banners = window.state()["banners"];
  REQUIRE(banners.size() == 1);
  const std::string refusal = banners[0]["text"];
  CHECK_THAT(refusal, Catch::Contains(" tokens here, so there is no ranking. Use a gated run, or strategies A to C on "
                                      "the board."));
  CHECK(refusal.find("kvpop:") == std::string::npos);
  CHECK(window.state()["ui"]["dialog"].is_null());
  CHECK(window.text("dialog.hint").empty());

  show(window, 2);
  window.key("ctrl+h");
  window.wait({{"/ui/dialog", "heads.export"}});
  window.frames(3);
  const std::string hint = window.text("dialog.hint");
  CAPTURE(hint);
  const auto heads = test::kvscope_run({"heads", open, "--share", "0.25"});
  REQUIRE(heads.exit_code == 0);
  const std::string said = heads.out.substr(heads.out.find("strategy d: ") + 12);
  CHECK(hint.starts_with(said.substr(0, said.find('\n'))));  // what the command line says of the same heads
  CHECK(hint.find(" of 6 heads global, share ") != std::string::npos);
  CHECK(hint.find(", coverage ") != std::string::npos);
  window.click("dialog.cancel");
  CHECK_FALSE(std::filesystem::exists(window.folder() / "selected-heads"));
}

WINDOW_TEST("Views over a view puts another in its place or beside it, and a narrow one has its buttons behind one") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", "one two three four five six seven"}});
  window.command("run.max_tokens", {{"n", 6}});
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.click("view.cache_timeline.views");
  window.click("views.here.run_curves");
  window.wait({{"/ui/main_row", {"layer_head_map", "run_curves"}}});
  window.frames(3);
  window.click("view.run_curves.views");
  window.click("views.beside.comparison");
  window.wait({{"/ui/main_row", {"layer_head_map", "run_curves", "comparison"}}});
  CHECK(window.text("comparison.note").starts_with("No B yet"));
  window.command("view.show", {{"view", "metric_by_layer"}});
  window.frames(3);
  window.click("view.layer_head_map.more");
  window.click("view.layer_head_map.views");
  window.click("views.hide");
  window.wait({{"/ui/main_row", {"run_curves", "comparison", "metric_by_layer"}}});
  window.key("shift+F5");  // what stands there now gets a name
  window.frames(3);
  window.type("my own");
  window.wait({{"/ui/text_input", true}});
  window.key("Return");
  window.frames(3);
  window.click("layouts.close");
  window.command("layout.explore");
  window.wait({{"/ui/main_row", {"layer_head_map", "cache_timeline"}}});
  window.key("shift+F5");
  window.frames(3);
  window.click("layouts.take.my own");
  window.wait({{"/ui/main_row", {"run_curves", "comparison", "metric_by_layer"}}, {"/ui/layouts", false}});
  window.command("layout.explore");
  window.key("F3");
  window.frames(3);
  CHECK(window.text("frame_times").starts_with("CPU per frame, last "));
  const auto line = window.rect("frame_times"), views = window.rect("split.inspector");
  CHECK(line[1] >= views[1] + views[3]);  // it covers nothing
}
