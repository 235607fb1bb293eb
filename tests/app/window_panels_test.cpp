// What the panels at the left say of the next run, of A and of B.

#include <catch2/catch.hpp>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

// "25 % = 47, raised to 84" was read as A's, which the preview beside it is of.
WINDOW_TEST("What a budget comes to is said of the next run, and of A where that has another length") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=50%,sinks=4,window=4"}});
  window.command("run.max_tokens", {{"n", 100}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  const auto state = window.state();
  const int of_a = state["a"]["n_tokens"], next = state["parameters"]["prompt_tokens"].get<int>() + 100;
  REQUIRE(of_a < next);  // the fake engine counts words
  const auto kept_of = [](int n) {
    return "would keep " + std::to_string(n / 2) + " of " + std::to_string(n) + " tokens (";
  };
  CHECK_THAT(window.text_soon("policy.budget_words", kept_of(next)), Catch::StartsWith("Next run: " + kept_of(next)));
  const std::string would =
      "50 % of A's " + std::to_string(of_a) + " tokens would be " + std::to_string(of_a / 2) + " (A kept ";
  CHECK_THAT(window.text_soon("policy.budget_words_a", "kept"), Catch::StartsWith(would));
  window.command("run.max_tokens", {{"n", 100 - (next - of_a)}});  // of one length
  window.frames(3);
  CHECK_THAT(window.text("policy.budget_words"), Catch::StartsWith("Next run: " + kept_of(of_a)));
  CHECK_THAT(window.text("policy.budget_words_a"), Catch::StartsWith(would));
  window.command("policy.set", {{"policy", "kvpop:budget=4000,sinks=4,window=4"}});
  window.frames(3);
  CHECK_THAT(window.text("policy.budget_words"), Catch::Contains(". Nothing will be evicted: all "));
}

WINDOW_TEST("A number with no end of digits has four of them wherever it is shown, and all in the command of its run") {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "hybrid:heads=c,full=0.8666666666666667"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  CHECK_THAT(window.text_soon("run.1.name", "full"), Catch::Contains("full 0.8667") && !Catch::Contains("0.86666"));
  CHECK_THAT(window.text("policy.full"), !Catch::Contains("0.86666"));
  window.frames(5);
  const auto row = window.rect("run.1.name");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(row[0] + 20)),
                 std::to_string(static_cast<int>(row[1] + row[3] / 2))});
  CHECK_THAT(window.text_soon("hint", "full="), Catch::Contains("full=0.8667") && !Catch::Contains("0.86666"));
  CHECK_THAT(window.command("run.copy_command", {{"id", 1}}).get<std::string>(),
             Catch::Contains("full=0.8666666666666667"));
}

// Their ends followed the prompt's length, letter by letter.
TEST_CASE("The knobs of sinks, window and budget stay where they are while a prompt is typed") {
  if (skip_without_display()) return;
  const char* kind = GENERATE("tokens", "keep", "compression");
  CAPTURE(kind);
  const Xvfb display;
  WindowDriver window(display, {.engine = fake()});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=50%,sinks=4,window=16"}});
  const nlohmann::json budgets = {{"tokens", 60}, {"keep", 0.5}, {"compression", 2}};
  window.command("policy.set", {{"budget", budgets[kind]}, {"kind", kind}});
  std::string words;
  const auto ranges = [&](int n_words) {
    words.clear();
    for (int i = 0; i < n_words; ++i) words += " word";
    window.command("prompt.set", {{"text", words}});
    window.wait({{"/parameters/prompt_tokens", {{"at_least", 1}}}});
    window.frames(3);
    std::string all;
    for (const char* item : {"policy.sinks", "policy.window", "policy.budget"})
      all += window.text(std::string(item) + ".range") + "; ";
    return all;
  };
  const std::string at_first = ranges(100);
  CHECK(at_first.find(" to 1024; ") != std::string::npos);
  CHECK(ranges(101) == at_first);
  CHECK(ranges(600) == at_first);
  CHECK(ranges(1100) != at_first);  // what it holds is reached all the same
  CHECK(ranges(1101) == ranges(1500));
}

// At 1280 pixels the reason why Run is disabled takes the place of the model's button.
TEST_CASE(
    "Ctrl+M opens the models at once, also where there is no room for their button, and what is typed later stays") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "1280x720"}});
  window.wait({{"/engine", "ready"}});
  window.command("prompt.set", {{"text", ""}});
  window.rect("run.obstacle");
  window.key("ctrl+m");
  window.rect("models.open");
  window.key("Escape");
  window.key("ctrl+p");
  window.wait({{"/ui/text_input", true}});
  window.type("some text");
  window.wait({{"/parameters/prompt", "some text"}});
}

TEST_CASE("Ctrl+P brings the prompt into sight before it takes what is typed") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "1280x720"}});
  window.wait({{"/engine", "ready"}});
  window.click("sampling");
  const auto at = window.rect("policy.combo");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(at[0]) + 20),
                 std::to_string(static_cast<int>(at[1]) - 6)});
  for (int i = 0; i < 12; ++i) {
    window.inputs({"click", "5"});
    window.frames(2);
  }
  REQUIRE(window.rect("prompt.text")[1] < 0);
  window.key("ctrl+p");
  window.wait({{"/ui/text_input", true}});
  window.key("ctrl+a");
  window.type("seen");
  window.wait({{"/parameters/prompt", "seen"}});
  CHECK(window.rect("prompt.text")[1] > 40);
}
