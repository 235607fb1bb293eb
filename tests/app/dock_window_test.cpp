// Views that are dragged, floated, opened twice, closed, and what comes back.

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/app/window_driver.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

namespace {

void decode(WindowDriver& window) {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", "one two three four five six seven"}});
  window.command("run.max_tokens", {{"n", 6}});
  window.command("policy.set", {{"policy", "kvpop:keep=40%"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.frames(4);
}

json arrangement(WindowDriver& window) { return window.state()["ui"]["arrangement"]; }

}  // namespace

WINDOW_TEST("A tab that is dragged over another view is a tab beside it, and Undo puts it back") {
  decode(window);
  const json before = arrangement(window);
  const auto tab = window.rect("tab.cache_timeline"), over = window.rect("tab.layer_head_map");
  const auto move = [&](double x, double y) {
    window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(x)),
                   std::to_string(static_cast<int>(y))});
    window.frames(3);
  };
  move(tab[0] + 25, tab[1] + tab[3] / 2);
  window.inputs({"mousedown", "1"});
  window.frames(3);
  move(tab[0] + 20, tab[1] + 40);
  move(tab[0] + 20, tab[1] + 150);  // out of its bar, or it would only be sorted in there
  move((tab[0] + over[0]) / 2, tab[1] + 100);
  move(over[0] + over[2] / 2, over[1] + 60);
  for (const double at : {0.45, 0.5, 0.55}) move(over[0] + over[2] * at, over[1] + over[3] / 2);
  window.inputs({"mouseup", "1"});
  window.frames(6);
  const json now = arrangement(window);
  INFO(now.dump());
  CHECK(now.dump().find(R"("tabs":["layer_head_map","cache_timeline"])") != std::string::npos);
  window.key("ctrl+z");
  window.frames(6);
  CHECK(arrangement(window) == before);
}

TEST_CASE(
    "Two maps of different metrics and two strips of different heads are exported as shown and come back after a kill") {
  if (skip_without_display()) return;
  const Xvfb display;
  const TemporaryFolder state;
  json before;
  std::string map, second;
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    decode(window);
    window.command("view.metric", {{"metric", "recall"}});
    window.command("view.another", {{"view", "layer_head_map"}});
    window.command("view.metric", {{"metric", "density"}, {"view", "layer_head_map.2"}});
    window.command("selection.set", {{"layer", 1}, {"kv_head", 1}});
    window.command("view.another", {{"view", "token_strip"}});
    window.command("view.hold_head", {{"view", "token_strip.2"}});
    window.command("selection.set", {{"layer", 0}, {"kv_head", 0}});
    window.command("view.float", {{"view", "token_strip.2"}});
    window.frames(6);
    CHECK(window.text("strip.title") != window.text("token_strip.2:strip.title"));
    for (const auto& [view, file] : {std::pair("layer_head_map", "first"), std::pair("layer_head_map.2", "second"),
                                     std::pair("token_strip", "strip"), std::pair("token_strip.2", "strip2")}) {
      window.command("figure.export",
                     {{"view", view}, {"path", (window.folder() / (std::string(file) + ".svg")).string()}});
      window.wait({{"/files_busy", false}});
    }
    CHECK(read_text(window.folder() / "first.json").find("recall") != std::string::npos);
    CHECK(read_text(window.folder() / "second.json").find("density") != std::string::npos);
    CHECK(read_text(window.folder() / "strip.svg") != read_text(window.folder() / "strip2.svg"));
    before = window.state()["ui"];
    window.wait({{"/workspace/saved", true}});
    window.kill();
  }
  WindowDriver window(display, {.engine = fake(), .state = state.path()});
  window.wait({{"/workspace/restoring", false}, {"/a/status", "complete"}});
  window.frames(6);
  CHECK(window.state()["ui"]["arrangement"] == before["arrangement"]);
  CHECK(window.state()["ui"]["looks"] == before["looks"]);
  CHECK(window.text("strip.title") != window.text("token_strip.2:strip.title"));
  window.click("view.token_strip.2.views");
  window.click("views.hide");
  window.frames(4);
  CHECK(arrangement(window).dump().find("token_strip.2") == std::string::npos);
}
