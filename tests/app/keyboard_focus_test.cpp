// Who has the keyboard: the views, the controls, a text field or a menu.

#include "app/window/keyboard_focus.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::decode_short;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

WINDOW_TEST("Tab gives arrows and space to the controls, F6 moves on, and Escape gives them back to the views") {
  decode_short(window);
  window.key("Home");
  window.key("Right");
  CHECK(window.state()["selection"]["q"] == 1);
  CHECK(window.state()["ui"]["keyboard"].is_null());
  window.key("Tab");
  window.wait({{"/ui/keyboard", "left"}});
  window.key("F6");
  window.wait({{"/ui/keyboard", "command_bar"}});
  window.frames(3);      // ImGui answers which control is the first with the next frame
  window.key("Return");  // its first control has the keys at once, without an arrow
  CHECK(!window.rect("menu.View").empty());
  window.key("Escape");
  window.key("Shift+F6");
  window.wait({{"/ui/keyboard", "left"}});
  window.key("Down");
  window.key("Right");
  CHECK(window.state()["selection"]["q"] == 1);  // they walk through the controls now
  window.key("F6");
  window.wait({{"/ui/keyboard", "command_bar"}});
  window.key("Shift+F6");
  window.wait({{"/ui/keyboard", "left"}});
  window.key("Escape");
  window.wait({{"/ui/keyboard", nullptr}});
  window.key("Right");
  CHECK(window.state()["selection"]["q"] == 2);
  // With nothing open Escape ends a set of runs.
  window.command("runs.choose", {{"id", window.state()["a"]["id"]}});
  CHECK(window.state()["selection"]["runs"].size() == 1);
  window.key("Escape");
  window.wait({{"/selection/runs", nlohmann::json::array()}});
}

WINDOW_TEST("The prompt is entered by Tab, Down and Enter, and Escape goes on from it") {
  decode_short(window);
  window.command("prompt.set", {{"text", ""}});
  window.key("Escape");
  window.key("Tab");
  window.wait({{"/ui/keyboard", "left"}});
  window.frames(3);
  const auto is_typing = [&] { return window.state()["ui"]["text_input"] == true; };
  for (int i = 0; i < 40 && !is_typing(); ++i) {
    window.key("Down");
    window.frames(3);
    const auto field = window.rect("prompt.text");
    const auto framed = window.state()["ui"]["keyboard_frame"].get<std::vector<float>>();
    const bool there = !field.empty() && std::abs(framed[1] - field[1]) < 6 && std::abs(framed[3] - field[3]) < 12;
    if (!there) continue;
    window.key("Return");
    window.frames(3);
  }
  REQUIRE(is_typing());
  window.key("x");
  CHECK(window.state()["parameters"]["prompt"] == "x");
  window.key("Escape");
  CHECK_FALSE(is_typing());
  CHECK(window.state()["ui"]["keyboard"] == "left");  // arrows walk on
}

WINDOW_TEST("Escape closes the menu also while the mouse is over the entry that opened a part of it") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.click("button.menu");
  window.frames(3);
  window.click("menu.View");
  window.frames(4);
  REQUIRE(!window.rect("menu.view.theme").empty());
  window.key("Escape");
  window.frames(6);
  const nlohmann::json answer = window.request({{"query", "items"}});
  for (const auto& item : answer["items"]) {
    CAPTURE(item);
    CHECK_FALSE(item.get<std::string>().starts_with("menu."));
  }
}

// Enter opens the number's field, and the digits were shortcuts of the strip as well.
WINDOW_TEST("Digits that are typed at once behind the Enter that opens a number's field are its alone") {
  decode_short(window, "kvpop:budget=6,sinks=1,window=2");
  window.key("Escape");
  const auto colour = window.state()["selection"]["colour"];
  window.key("Tab");
  window.wait({{"/ui/keyboard", "left"}});
  window.frames(3);
  const auto is_framed = [&] {
    const auto field = window.rect("policy.sinks.field");
    const auto framed = window.state()["ui"]["keyboard_frame"].get<std::vector<float>>();
    return std::abs(framed[0] - field[0]) < 3 && std::abs(framed[1] - field[1]) < 3;
  };
  for (int i = 0; i < 60 && !is_framed(); ++i) {
    window.key(
        std::abs(window.state()["ui"]["keyboard_frame"][1].get<double>() - window.rect("policy.sinks.field")[1]) < 3
            ? "Right"
            : "Down");
    window.frames(3);
  }
  REQUIRE(is_framed());
  REQUIRE(window.inputs({"key", "--delay", "4", "Return", "ctrl+a", "2", "Return"}));
  window.frames(6);
  CHECK_THAT(window.state()["parameters"]["policy"].get<std::string>(), Catch::Contains("sinks=2"));
  CHECK(window.state()["selection"]["colour"] == colour);
}

WINDOW_TEST("What is typed at once behind Ctrl+P or Ctrl+G is no shortcut") {
  decode_short(window);
  window.command("prompt.set", {{"text", ""}});
  window.key("Escape");
  const auto colour = window.state()["selection"]["colour"];
  for (int i = 0; i < 2; ++i) {
    REQUIRE(window.inputs({"key", "--delay", "4", "ctrl+g", "2", "3", "Escape", "ctrl+p", "4", "2", "Escape"}));
    if (i % 2 == 1) window.frames(40);  // else the next ones come at once
    CHECK(window.state()["selection"]["colour"] == colour);
  }
  const std::string prompt = window.state()["parameters"]["prompt"].get<std::string>();
  CHECK(prompt.size() == 4);
  CHECK(prompt.find_first_not_of("42") == std::string::npos);  // 2 and 3 were Go to's
}

WINDOW_TEST("A field that is asked for over a list takes its place, and a key whose command is refused says why") {
  decode_short(window);
  window.key("Escape");
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  REQUIRE(window.inputs({"key", "--delay", "5", "ctrl+g", "1", "3", "Return"}));
  window.wait({{"/ui/palette", false}, {"/selection/q", 13}});
  window.key("F1");
  window.wait({{"/ui/help", true}});
  REQUIRE(window.inputs({"key", "--delay", "5", "ctrl+f", "m", "o", "d"}));
  window.wait({{"/ui/help", false}});
  CHECK(window.text_soon("find.input", "mod") == "mod");
  window.command("find.clear");
  window.key("ctrl+o");
  window.wait({{"/ui/dialog", {{"not", nullptr}}}});
  window.key("ctrl+g");
  window.frames(4);
  CHECK(window.text("go_to.input").empty());
  window.key("Escape");
  window.wait({{"/ui/dialog", nullptr}});
  window.command("prompt.set", {{"text", ""}});
  window.key("ctrl+r");
  window.wait({{"/notice", {{"not", ""}}}});
  CHECK(window.state()["notice"] == window.text("run.obstacle"));
}

WINDOW_TEST("A layout of one's own is saved, taken, replaced and removed by keys alone") {
  decode_short(window);
  window.key("Escape");
  const std::vector<std::string> ours = {"run_curves", "comparison"}, explore = {"layer_head_map", "cache_timeline"};
  const auto show = [&](const std::vector<std::string>& views) {
    window.command("layout.explore");
    for (std::size_t i = 0; i < views.size(); ++i)
      window.command("view.show", {{"view", views[i]}, {"instead_of", explore[i]}});
    window.wait({{"/ui/main_row", views}});
  };
  show(ours);
  window.key("Tab");  // the controls have the keyboard, which is the harder case
  window.key("shift+F5");
  window.wait({{"/ui/layouts", true}, {"/ui/text_input", true}});
  REQUIRE(window.inputs({"key", "--delay", "5", "Return"}));  // nothing is typed: nothing happens
  window.frames(4);
  for (const char* name : {"mine", "other"}) {
    window.type(name);
    window.key("Return");
    CHECK(window.text_soon(std::string("layouts.take.") + name, "").empty() == (std::string(name) == "other"));
    window.wait({{"/ui/text_input", true}});
  }
  window.key("Escape");
  window.command("layout.explore");
  window.wait({{"/ui/main_row", explore}});
  window.key("shift+F5");
  window.wait({{"/ui/layouts", true}, {"/ui/text_input", true}});
  window.key("Down");
  CHECK(window.text_soon("layouts.take.other", "chosen") == "chosen");
  window.key("Up");
  window.key("Return");
  window.wait({{"/ui/main_row", ours}, {"/ui/layouts", false}});
  window.command("layout.explore");
  window.key("shift+F5");
  window.wait({{"/ui/layouts", true}, {"/ui/text_input", true}});
  window.type("other");  // a name that is there is taken by Enter, not written over
  window.key("Return");
  window.wait({{"/ui/main_row", ours}, {"/ui/layouts", false}});
  window.command("layout.explore");
  window.key("shift+F5");
  window.wait({{"/ui/layouts", true}, {"/ui/text_input", true}});
  window.type("other");
  window.key("alt+r");
  window.wait({{"/workspace/undo", "custom layouts"}});
  window.key("Down");
  window.key("Return");
  window.wait({{"/ui/main_row", explore}, {"/ui/layouts", false}});
  window.key("shift+F5");
  window.wait({{"/ui/layouts", true}, {"/ui/text_input", true}});
  window.key("alt+Delete");
  window.frames(3);
  CHECK(window.rect("layouts.take.other").size() == 4);
  CHECK_THROWS(window.rect("layouts.take.mine"));
}

WINDOW_TEST("Home and End are the controls' while these have the keyboard, Alt+. and Alt+, go from token to token") {
  decode_short(window);
  window.key("Escape");
  window.command("scrub.to", {{"q", 9}});
  window.key("Tab");
  window.wait({{"/ui/keyboard", "left"}});
  window.key("Home");
  window.key("End");
  window.frames(4);
  CHECK(window.state()["selection"]["q"] == 9);
  window.key("alt+period");
  window.wait({{"/selection/token", 9}});
  window.key("alt+period");
  window.wait({{"/selection/token", 10}});
  window.key("Escape");
  window.key("alt+comma");
  window.key("alt+comma");
  window.wait({{"/selection/token", 8}, {"/selection/q", 9}});
  for (int i = 0; i < 10; ++i) window.key("alt+comma");
  window.wait({{"/selection/token", 0}});
}

WINDOW_TEST("A number typed at once behind Ctrl+G, and a word behind Ctrl+F or Ctrl+K, are whole") {
  decode_short(window);
  window.key("Escape");
  const std::string delay = GENERATE("1", "5", "20");
  for (int i = 0; i < 2; ++i) {
    window.key("Home");
    REQUIRE(window.inputs({"key", "--delay", delay, "ctrl+g", "1", "3", "Return"}));
    window.wait({{"/selection/q", 13}});
    REQUIRE(window.inputs({"key", "--delay", delay, "ctrl+f", "m", "o", "d", "e", "l"}));
    CHECK(window.text_soon("find.input", "model") == "model");
    window.command("find.clear");
    REQUIRE(window.inputs({"key", "--delay", delay, "ctrl+k", "t", "h", "e", "m", "e"}));
    CHECK(window.text_soon("palette.input", "theme") == "theme");
    window.key("Escape");
    window.wait({{"/ui/palette", false}});
  }
}
