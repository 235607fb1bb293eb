// What the panels at the left say of the next run, of A and of B.

#include <catch2/catch.hpp>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

// "25 % = 47, raised to 84" was read as A's, which the preview beside it is of.
TEST_CASE("What a budget comes to is said of the next run, and of A where that has another length") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake()});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=50%,sinks=4,window=4"}});
  window.command("run.max_tokens", {{"n", 100}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  const std::string of_a = std::to_string(window.state()["a"]["n_tokens"].get<int>()) + " tokens kept";
  CHECK_THAT(window.text_soon("policy.budget_words", ", and A"),
             Catch::StartsWith("Next run, and A: ") && Catch::Contains(of_a));
  CHECK(window.text("policy.budget_words_a").empty());
  window.command("run.max_tokens", {{"n", 40}});
  window.frames(3);
  CHECK_THAT(window.text("policy.budget_words"), Catch::StartsWith("Next run: ") && !Catch::Contains(of_a));
  CHECK_THAT(window.text("policy.budget_words_a"), Catch::StartsWith("A: ") && Catch::Contains(of_a));
  window.command("policy.set", {{"policy", "kvpop:budget=4000,sinks=4,window=4"}});
  window.frames(3);
  CHECK_THAT(window.text("policy.budget_words"), Catch::Contains(". Nothing will be evicted: all "));
}
