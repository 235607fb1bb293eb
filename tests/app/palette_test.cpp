// The palette: the words it asks in, and its field.

#include <catch2/catch.hpp>
#include <tuple>

#include "app/window/argument_words.h"
#include "tests/app/window_driver.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

TEST_CASE("A command's arguments are asked for in the controls' words, and taken in these or by their names") {
  using namespace app::arg;
  using app::argument_words, app::with_names;
  const std::vector<app::Argument> head = {number("layer"), number("kv_head"), number("token")};
  CHECK(argument_words(head) == "layer: number, KV head: number, token: number");
  CHECK(with_names(head, "KV head 3, layer 1") == " kv_head 3, layer 1");
  CHECK(with_names(head, "kv head 3") == " kv_head 3");
  CHECK(with_names(head, "kv_head 3") == " kv_head 3");
  CHECK(with_names(head, "nothing 3") == "nothing 3");
  const std::vector<app::Argument> policy = {
      app::arg::text("policy"), app::arg::text("gate", "", "name"), otherwise(app::arg::text("parameter", "", "name")),
      number("value"),          otherwise(number("budget")),        choice("kind", {"tokens", "keep", "compression"})};
  CHECK(argument_words(policy) ==
        "policy: text, gate: name | parameter: name, value: number | budget: number, budget as: tokens, keep % or "
        "compression");
  CHECK(with_names(policy, "budget 4, budget as compression") == " budget 4, kind compression");
  CHECK(with_names(policy, "budget 0.5, budget as keep %") == " budget 0.5, kind keep");
  CHECK(with_names(policy, "policy kvpop:budget=4,sinks=2") == " policy kvpop:budget=4,sinks=2");
  CHECK(argument_words({number("a", "", "run id"), number("b", "", "run id")}) == "A: run id, B: run id");
  CHECK(argument_words({number("id", "A", "run id"), otherwise(path("trace", "", "path"))}) ==
        "run: run id (A) | trace: path");
  CHECK(argument_words({number("id")}) == "id: number");  // of whatever
  CHECK(with_names({number("turn")}, "3") == "3");
}

WINDOW_TEST("The palette keeps the keyboard where Enter has nothing to run") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("swap a and b");  // there is no B
  window.key("Return");
  window.frames(4);
  CHECK(window.state()["ui"]["text_input"] == true);
  CHECK_THAT(window.text("palette.run.swap"), Catch::StartsWith("not possible now"));
  window.type(" zzz");
  CHECK_THAT(window.text("palette.input"), Catch::EndsWith(" zzz"));
  window.key("Return");
  window.frames(4);
  CHECK(window.state()["ui"]["text_input"] == true);
  CHECK(window.state()["ui"]["palette"] == true);
  window.type("q");
  CHECK_THAT(window.text("palette.input"), Catch::EndsWith("q"));
}

WINDOW_TEST("What a step would take back is no command of that name") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("view.metric", {{"metric", "density"}});
  window.command("view.metric", {{"metric", "cache_share"}});
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("density");
  window.key("Return");
  window.wait({{"/ui/palette", false}, {"/workspace/undo", "metric Cache share to Density"}});
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("undo");
  window.key("Return");
  window.wait({{"/ui/palette", false}, {"/workspace/redo", "metric Cache share to Density"}});
}

WINDOW_TEST("The palette takes a head by the words that it asks in") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("select layer, head and token");
  window.key("Return");
  CHECK_THAT(window.text_soon("palette.asks", "number"),
             Catch::StartsWith("layer: number, KV head: number, token: number"));
  window.frames(4);
  window.wait({{"/ui/text_input", true}});
  window.type("layer 1, KV head 2");
  window.key("Return");
  window.wait({{"/ui/palette", false}, {"/selection/layer", 1}, {"/selection/kv_head", 2}});
}

// Enter ran it without a range, and what was typed then were shortcuts.
WINDOW_TEST("By keys alone a range of tokens is marked, and let go of") {
  decode_short(window);
  for (const auto& [typed, begin, end] : {std::tuple("from 4, up to 9", 4, 9), std::tuple("5 8", 5, 8)}) {
    window.key("ctrl+k");
    window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
    window.type("mark a range");
    window.key("Return");
    CHECK_THAT(window.text_soon("palette.asks", "unmark"),
               Catch::StartsWith("from: token, up to: token; leave empty to unmark"));
    window.frames(4);
    window.wait({{"/ui/text_input", true}});
    window.type(typed);
    window.key("Return");
    window.wait({{"/ui/palette", false}, {"/workspace/undo", "marked range"}});
    const std::string part = "tokens " + std::to_string(begin) + "–" + std::to_string(end - 1);
    CHECK_THAT(window.text_soon("strip.brush", part), Catch::StartsWith(part));
  }
}
