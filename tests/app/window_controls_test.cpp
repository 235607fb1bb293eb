// The controls of the policy and the status line, as they stand in the window.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/core/policy/policy_text.h"
#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

double value_of(WindowDriver& window, const char* parameter) {
  return PolicySpec::parse(window.state()["parameters"]["policy"].get<std::string>()).value(parameter);
}

/// The item's text once it is `expected`, or what it still is after 200 frames: what a gate says of itself comes a little
/// after the model.
std::string text_in_time(WindowDriver& window, const char* item, const std::string& expected) {
  for (int i = 0; i < 200 && window.text(item) != expected; ++i) window.frames(1);
  return window.text(item);
}

/// What stands in a new window, decoded to its end.
void run_prompt(WindowDriver& window) {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("run.start");
  window.wait({{"/a/status", "complete"}});
}

}  // namespace

WINDOW_TEST("Parameters that few change are folded away while they are at their defaults, and one click shows them") {
  window.wait({{"/model", {{"not", nullptr}}}});
  const auto shown = [&](const char* policy) {
    window.command("policy.set", {{"policy", policy}});
    window.frames(3);
    std::string names;
    for (const char* name : {"threshold", "strict", "window", "read", "pool", "drop", "observe", "stride", "decay"}) {
      if (!window.text(std::string("policy.") + name).empty()) names += (names.empty() ? "" : " ") + std::string(name);
    }
    return names;
  };
  CHECK(shown("sp-kv") == "threshold window");
  CHECK(window.text("button.policy.all_parameters") == "6 more settings");
  CHECK(shown("sp-kv:read=64") == "threshold window read");
  CHECK(shown("sp-kv:pool=64") == "threshold window pool drop observe");  // which count once there is a pool
  CHECK(shown("sp-kv:strict=1") == "threshold strict window");
  CHECK(shown("kvpop:stride=4") == "window stride decay");
  CHECK(shown("streaming") == "window");
  CHECK(window.text("button.policy.all_parameters").empty());
  CHECK(shown("sp-kv") == "threshold window");
  window.click("button.policy.all_parameters");
  CHECK(shown("sp-kv") == "threshold strict window read pool drop observe");
  CHECK(window.text("button.policy.all_parameters") == "Fewer settings");
  window.command("edit.undo");
  window.frames(3);
  CHECK(window.text("policy.strict").empty());
}

// H12, W15, W16.
WINDOW_TEST("Sliders reach what a parameter may be, with the decimals that they show") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "sp-kv:pool=64"}});
  window.frames(2);
  window.drag("policy.drop", 0.2, 0.5);
  const double drop = value_of(window, "drop");
  CHECK(drop == Approx(0.5).margin(0.05));  // it was taken for a decay: 0.99 and more
  window.drag("policy.threshold", 0.5, 0.76);
  const std::string policy = window.state()["parameters"]["policy"];
  CHECK(policy.find("99999") == std::string::npos);
  window.command("policy.set", {{"policy", "hybrid:heads=c"}});
  window.frames(2);
  CHECK(window.text("policy.full") == "0.286");
  window.command("policy.set", {{"policy", "hybrid:heads=a"}});
  window.frames(2);
  CHECK(window.text("policy.full") == "disabled 0.500");  // its own share of this model's heads
  CHECK(window.text("policy.heads_note") ==
        "12 of 24 heads global (50 %), A: every fourth layer from layer 0, and the last");
}

// W16: SP-KV took window 128 although the gate file said 64, and nothing on the screen said so.
TEST_CASE("The panel shows the gate's own numbers, and beside one that was written what the gate says") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate sp_kv,0.75,64")});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "sp-kv"}});
  window.frames(3);
  CHECK(text_in_time(window, "policy.window", "64") == "64");
  CHECK(window.text("policy.threshold") == "0.75");
  CHECK(window.text("policy.window.own").empty());
  window.command("policy.set", {{"parameter", "window"}, {"value", 20}});
  window.command("policy.set", {{"parameter", "threshold"}, {"value", 0.5}});  // the method's own, but written
  window.frames(3);
  CHECK(window.text("policy.window") == "20");
  CHECK(window.text("policy.window.own") == "gate default: 64");
  CHECK(window.text("policy.threshold") == "0.50");
  CHECK(window.text("policy.threshold.own") == "gate default: 0.75");
}

// W16: a threshold of 0.5375 stood there as 0.54, a budget of 12.5 % as 12 %.
TEST_CASE("A slider writes all decimals of a number that it was given, of a gate, a budget or a share") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate sp_kv,0.5375,64")});
  window.wait({{"/model", {{"not", nullptr}}}});
  const auto check = [&](const char* policy, const char* item, const std::string& text) {
    window.command("policy.set", {{"policy", policy}});
    CHECK(text_in_time(window, item, text) == text);
  };
  check("sp-kv", "policy.threshold", "0.5375");
  check("kvpop:keep=12.5%", "policy.budget", "12.5 %");
  check("tova:compression=3.25", "policy.budget", "3.25×");
  check("kvpop:keep=0.9574468", "policy.budget", "95.74 %");  // of whole tokens, and what runs stays that
  CHECK(window.text("policy.budget.field") == "95.74 %");
  CHECK(PolicySpec::parse(window.state()["parameters"]["policy"].get<std::string>()).budget->value == 0.9574468);
  check("quest:read=12.5%", "policy.read", "12.5 %");
  check("hybrid:heads=c", "policy.heads", "c");
}

// A newcomer's first own prompt ended in a failed run: 25 % of it are fewer tokens than sinks and window take.
WINDOW_TEST("A short prompt runs under the policy that stands there: its budget is raised, and the panel says so") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=25%,sinks=4,window=4"}});
  window.frames(3);
  // A field of 25 % and 24.9 % beside it would be two shares.
  CHECK_THAT(window.text("policy.budget_words"),
             Catch::Contains("would keep ") && Catch::Contains(" tokens (") && !Catch::Contains("%"));
  window.command("policy.set", {{"policy", "kvpop:keep=25%,sinks=4,window=64"}});
  window.command("prompt.set", {{"text", "one two three four five six seven"}});
  window.command("run.max_tokens", {{"n", 4}});
  window.frames(3);
  CHECK_THAT(window.text("policy.budget_words"),
             Catch::StartsWith("Next run: 25 % of ") &&
                 Catch::Contains("raised to the minimum of 68 (sinks + window). Nothing will be evicted: all "));
  CHECK(window.text("run.obstacle").empty());
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  CHECK_THAT(window.state()["a"]["policy"].get<std::string>(), Catch::Contains("budget=68"));
  CHECK_FALSE(window.state()["preview"]["shown"].get<bool>());                      // what stands there was measured
  window.command("policy.set", {{"policy", "kvpop:budget=31,sinks=4,window=64"}});  // tokens are meant as they are
  window.frames(3);
  CHECK_THAT(window.text("run.obstacle"), Catch::Contains("A budget of 31 tokens is too small"));
}

WINDOW_TEST("What Quest reads is a number of tokens or a share of the run, by the same slider") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "quest:read=25%"}});
  window.frames(3);
  CHECK(window.text("policy.read") == "25 %");
  CHECK(window.text("policy.read_unit") == "%");
  window.drag("policy.read", 0.25, 0.6);
  CHECK(value_of(window, "read") == Approx(0.6).margin(0.07));  // the knob takes a part of 100 pixels
  window.click("policy.read_unit");
  window.frames(3);
  CHECK(window.text("policy.read_unit") == "tok");
  CHECK(value_of(window, "read") >= 16);
  window.click("policy.read_unit");
  window.frames(3);
  CHECK(value_of(window, "read") < 1);
}

// W6: the prompt's progress stood there during the answer.
TEST_CASE("The status line tells how far the answer is, and where a run was stopped") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 20 --late-progress")});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", "one two three four five"}});
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 1000}});
  window.command("run.start");
  window.wait({{"/progress/phase", "decode"}, {"/progress/value", {{"at_least", 25}}}});
  const double before = window.state()["progress"]["value"];
  window.frames(3);
  const std::string running = window.text("status");
  const double after = window.state()["progress"]["value"];
  CHECK(running.starts_with("decode "));
  CHECK(running.find(" / 1000, ") != std::string::npos);
  CHECK(running.find(" tok/s, 0:") != std::string::npos);
  const double decoded = std::stod(running.substr(std::string("decode ").size()));
  CHECK(decoded >= before);
  CHECK(decoded <= after);
  const double per_second = std::stod(running.substr(running.find(", ") + 2));
  CHECK(per_second > 0);
  CHECK(per_second <= 75);  // it sleeps 20 ms a token; a busy machine hears of the first one up to 0.15 s late
  for (int i = 0; i < 10; ++i) {
    window.frames(1);
    const std::string later = window.text("status");
    CAPTURE(later);
    CHECK(later.starts_with("decode "));
    CHECK(later.find(" tok/s") != std::string::npos);
  }
  window.command("run.cancel");
  window.wait({{"/running", false}});
  window.frames(3);
  const auto run = window.state()["a"];
  const int n_new = run["n_tokens"].get<int>() - run["prompt_len"].get<int>();
  CHECK(window.text("status") == "stopped at " + std::to_string(n_new) + " of 1000 new tokens");
}

TEST_CASE("The window opens on what set-up fetched, as a chat, and the tiny sample is one entry of the menu away") {
  if (skip_without_display()) return;
  const test::TemporaryFolder cache;
  const auto fetched = cache / "kvscope/models/smollm2-135m";
  test::link_sample_model(fetched, {"config.json", "tokenizer.json", "model.safetensors"});
  std::ofstream(fetched / "tokenizer_config.json")
      << R"({"chat_template": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %})"
      << R"({{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }})"
      << R"({% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %})"
      << R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})";
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .cache = cache.path()});
  window.wait({{"/model", "smollm2-135m"}});
  CHECK(window.state()["parameters"]["raw"] == false);
  CHECK(window.state()["parameters"]["prompt"].get<std::string>().starts_with("A key-value cache keeps"));
  window.click("button.models");
  window.click("menu.model.kvscope-tiny");
  window.wait({{"/model", "kvscope-tiny"}});
  window.wait({{"/parameters/raw", true}});  // it has no template
  CHECK(window.state()["parameters"]["prompt"].get<std::string>().starts_with("A key-value cache keeps"));
}

TEST_CASE("A model whose chat template is refused opens and runs plain text, and Chat is grey and shows why") {
  if (skip_without_display()) return;
  const test::TemporaryFolder model;
  test::link_sample_model(model.path(), {"config.json", "tokenizer.json", "model.safetensors"});
  const std::string chat_template = GENERATE(R"("{% include 'x' %}")", R"({"tool_use": "x"})", "7");
  std::ofstream(model / "tokenizer_config.json") << R"({"chat_template": )" << chat_template << "}";
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {model.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", true}});
  window.frames(3);
  const auto chat = window.rect("prompt.chat");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(chat[0] + 5)),
                 std::to_string(static_cast<int>(chat[1] + chat[3] / 2))});
  CHECK_THAT(window.text_soon("hint", "cannot be used"), Catch::Contains("The model's chat template cannot be used.") &&
                                                             Catch::Contains("tokenizer_config.json: "));
  window.click("prompt.chat");
  CHECK(window.state()["parameters"]["raw"] == true);
  window.command("prompt.set", {{"text", "hello"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
}

// At 1280 x 720 it began where the window ended.
TEST_CASE("The list of runs is in sight in a small window, however long the settings above it are") {
  if (skip_without_display()) return;
  const std::string size = GENERATE("1280x720", "800x600");
  CAPTURE(size);
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {"--size", size}});
  window.wait({{"/model", {{"not", nullptr}}}});
  for (int i = 1; i <= 3; ++i) {
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/status", "complete"}});
  }
  window.command("policy.all_parameters");
  window.frames(4);
  const double bottom = size == "1280x720" ? 720 : 600;
  const auto newest = window.rect("run.3.row");
  CHECK(newest[1] + newest[3] < bottom - 28);  // above the status line
  window.click("run.3.menu");
  CHECK(window.rect("run.3.copy")[1] < bottom);
}

// Behind it the arrows moved the run's position.
TEST_CASE("The sheet of keys is scrolled by arrows and page keys, and the run behind it stays where it is") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "800x600"}});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.key("comma comma");
  window.frames(3);
  const auto q = window.state()["selection"]["q"];
  CHECK(q > 0);
  window.command("help.keys");
  window.frames(3);
  const auto after = [&](const char* key) {
    window.key(key);
    window.frames(3);
    return window.text("keys.list");
  };
  CHECK(window.text("keys.list") == "top");
  CHECK(after("Down") == "middle");
  CHECK(after("Up") == "top");
  CHECK(after("Next") == "middle");
  CHECK(after("Prior") == "top");
  CHECK(after("End") == "end");
  CHECK(after("Home") == "top");
  CHECK(window.state()["selection"]["q"] == q);
  window.click("keys.close");
  window.frames(2);
  CHECK(after("Home").empty());
  CHECK(window.state()["selection"]["q"] == 0);
}

WINDOW_TEST("The search has the keyboard when it is opened again, and keeps it over Enter") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("prompt.set", {{"text", "one two one two one two one three"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/n_tokens", {{"at_least", 8}}}});
  window.key("slash");
  window.wait({{"/ui/text_input", true}});
  window.type("two");
  window.wait({{"/selection/find", "two"}});
  window.key("Return");
  window.frames(4);
  const int first = window.state()["selection"]["token"];
  window.key("Return");
  window.frames(4);
  CHECK(window.state()["selection"]["token"].get<int>() > first);
  const int metric = window.state()["selection"]["metric"];
  window.key("Escape");
  window.wait({{"/ui/text_input", false}});
  for (const char* key : {"slash", "ctrl+f"}) {  // the bar is closed, and then it is open
    window.key(key);
    window.wait({{"/ui/text_input", true}});
    window.type("mtl");  // each a shortcut
    window.wait({{"/selection/find", "mtl"}});
  }
  CHECK(window.state()["selection"]["metric"] == metric);
}

WINDOW_TEST("The list of models and gates is walked and taken by keys") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.key("ctrl+m");
  window.frames(4);
  CHECK_NOTHROW(window.rect("models.open"));
  window.key("Down");
  window.frames(3);
  const auto first = window.rect("models.keyed");
  window.key("Down");
  window.frames(3);
  CHECK(window.rect("models.keyed")[1] > first[1]);
  window.key("Up");
  window.frames(3);
  CHECK(window.rect("models.keyed")[1] == first[1]);
  window.key("Tab");  // it closed the list
  window.frames(3);
  CHECK(window.rect("models.keyed")[1] > first[1]);
  window.key("shift+Tab");
  window.frames(3);
  CHECK(window.rect("models.keyed")[1] == first[1]);
  window.key("Escape");
  window.frames(4);
  CHECK(window.request({{"query", "item"}, {"id", "models.open"}})["rect"].is_null());
  window.key("Tab");  // as one finds it from the keyboard alone
  window.frames(3);
  window.key("ctrl+m Tab");
  window.frames(4);
  CHECK(window.rect("models.keyed")[1] == first[1]);
  window.key("Escape");
  window.frames(4);
  CHECK(window.request({{"query", "item"}, {"id", "models.open"}})["rect"].is_null());
  window.key("ctrl+m Down");
  window.frames(3);
  window.key("Return");
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  const auto is_closed = [&] { return window.request({{"query", "item"}, {"id", "models.open"}})["rect"].is_null(); };
  for (int i = 0; i < 50 && !is_closed(); ++i) window.frames(1);
  CHECK(is_closed());
}

WINDOW_TEST("Letters, blank and arrows do nothing behind an open list, whatever they mean to the views") {
  run_prompt(window);
  const auto before = window.state();
  const auto is_untouched = [&] {
    const auto now = window.state();
    CHECK(now["selection"] == before["selection"]);
    CHECK(now["ui"]["text_input"] == false);
  };
  window.key("ctrl+m");
  window.wait({{"/frame", {{"at_least", window.state()["frame"].get<int>() + 3}}}});
  window.key("t i n y p m x space Left Home");
  window.frames(4);
  CHECK_NOTHROW(window.rect("models.open"));
  is_untouched();
  window.key("Escape");
  window.frames(4);
  window.click("policy.combo");
  window.frames(4);
  window.key("t n p space Left Home");
  window.frames(4);
  is_untouched();
  window.key("Escape");
  window.frames(4);
  window.key("Left");
  window.wait({{"/selection/q", before["a"]["n_tokens"].get<int>() - 2}});
}

TEST_CASE("The inspector scrolls: at 1280 x 720 all that it has of a token can be reached") {
  if (skip_without_display()) return;
  const Xvfb display(1280, 720);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "1280x720"}});
  run_prompt(window);
  window.command("selection.set", {{"token", 12}});
  window.frames(4);
  const auto pin = window.rect("inspector.pin");
  const auto wheel = [&](const char* button) {
    const std::string x = std::to_string(static_cast<int>(pin[0] + 40)), y = "500";
    std::vector<std::string> words = {"mousemove", "--window", "{window}", x, y};
    for (int i = 0; i < 30; ++i) words.insert(words.end(), {"click", button});
    window.inputs(words);
    window.frames(6);
  };
  wheel("5");
  const auto last = window.rect("inspector.recall above chance");
  CHECK(last[1] + last[3] < 700);
  CHECK(last[1] > 60);
  wheel("4");
  CHECK(window.rect("inspector.pin") == pin);
}

// ImGui keeps the steps of a field's text: undone in a text that was shorter by then, they ended the window.
WINDOW_TEST("Ctrl+Z in a field whose text became another one since it was typed in is harmless") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  for (const char* key : {"ctrl+k", "ctrl+k", "ctrl+o", "ctrl+o"}) {
    window.key(key);
    window.wait({{"/ui/text_input", true}});
    window.key("ctrl+z");
    window.frames(3);
    window.type("something long that is not there");
    window.frames(3);
    window.key("Escape");
    window.wait({{"/ui/text_input", false}});
  }
  CHECK(window.state()["ui"]["dialog"].is_null());
}

WINDOW_TEST("What is typed fast into Go to, and Enter at once behind it, is all taken") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/n_tokens", {{"at_least", 40}}}});
  for (const char* delay : {"12", "1"}) {
    window.key("ctrl+g");
    window.wait({{"/ui/text_input", true}});
    REQUIRE(window.inputs({"type", "--delay", delay, "l 2 h 1 t 12 q 30"}));
    REQUIRE(window.inputs({"key", "Return"}));
    window.wait({{"/ui/text_input", false}});
    const auto at = window.state()["selection"];
    CHECK(at["layer"] == 2);
    CHECK(at["kv_head"] == 1);
    CHECK(at["token"] == 12);
    CHECK(at["q"] == 30);
    window.command("go.to", {{"place", "l 0 h 0 t 1 q 5"}});
  }
}

WINDOW_TEST("A command of the palette that needs arguments asks for them in its field, and a refused one stays there") {
  run_prompt(window);
  const auto ask = [&] {
    window.key("ctrl+k");
    window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
    window.type("select layer, head and token");
    window.key("Return");
    CHECK_THAT(window.text_soon("palette.asks", "numbers"), Catch::Contains("name value, name value"));
    window.frames(4);
    window.wait({{"/ui/text_input", true}});
  };
  ask();
  window.type("layer 1, token 5");
  window.key("Return");
  window.wait({{"/ui/palette", false}, {"/selection/layer", 1}, {"/selection/token", 5}});
  ask();
  window.type("layer much");
  window.key("Return");
  CHECK_THAT(window.text_soon("palette.refused", "layer"), Catch::Contains("a number"));
  CHECK(window.state()["ui"]["palette"] == true);
  window.key("Escape");  // back to the list, and then out
  window.frames(4);
  CHECK(window.state()["ui"]["palette"] == true);
  CHECK(window.text("palette.asks").empty());
  window.key("Escape");
  window.wait({{"/ui/palette", false}});
}

TEST_CASE("At 1280 x 720 three views have the inspector's room, and two leave it its own") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "1280x720"}});
  decode_short(window);
  window.command("run.decode_again");
  window.wait({{"/running", false}, {"/b", {{"not", nullptr}}}});
  const auto has_inspector = [&] {
    window.frames(4);
    const auto answer = window.request({{"query", "items"}});
    return std::ranges::any_of(answer["items"], [](const auto& item) { return item == "inspector.pin"; });
  };
  window.command("layout.explore");
  CHECK(has_inspector());
  window.command("layout.compare");
  CHECK_FALSE(has_inspector());
  CHECK(window.state()["ui"]["right"] == true);  // a wider window has it again
}

WINDOW_TEST("The first Tab of a new window goes to a part of it that has a control") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.frames(4);
  for (int i = 0; i < 6; ++i) {
    window.key("Tab");
    window.frames(3);
    CHECK(window.state()["ui"]["keyboard"] != "runs");
  }
}

// Z maximised the strip and Ctrl+E exported the map, wherever the mouse was and whatever was shown.
WINDOW_TEST("Z and Ctrl+E are about the view that the mouse is over, and the dialog stays with it") {
  decode_short(window);
  const auto point_at = [&](const std::string& view) {
    const auto title = window.rect("view." + view + ".export");
    window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(title[0])),
                   std::to_string(static_cast<int>(title[1]) + 90)});
    window.frames(3);
  };
  for (const char* view : {"cache_timeline", "layer_head_map", "token_strip"}) {
    point_at(view);
    window.key("z");
    window.wait({{"/ui/maximised", view}});
    window.frames(2);
    window.key("ctrl+e");
    window.wait({{"/ui/dialog", "figure.export"}});
    CHECK_THAT(window.text_soon("dialog.path", view), Catch::Contains(view));
    window.key("Escape");
    window.wait({{"/ui/dialog", nullptr}});
    window.key("z");
    window.wait({{"/ui/maximised", ""}});
  }
}
