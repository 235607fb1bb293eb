// The controls of the policy and the status line, as they stand in the window.

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "engine/core/policy/policy_text.h"
#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::WindowDriver;
using test::Xvfb;

namespace {

bool skip_without_display() {
  const std::string missing = test::missing_for_windows();
  if (!missing.empty()) test::skip(missing.c_str());
  return !missing.empty();
}

std::string fake(const std::string& options = "") { return "exec " + test::fake_engine().string() + " " + options; }

double value_of(WindowDriver& window, const char* parameter) {
  return PolicySpec::parse(window.state()["parameters"]["policy"].get<std::string>()).value(parameter);
}

}  // namespace

// H12, W15, W16.
TEST_CASE("Sliders reach what a parameter may be, with the decimals that they show") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake()});
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
  CHECK(window.text("policy.full") == "disabled 0.286");
  CHECK(window.text("policy.heads_note").find("heads global = ") != std::string::npos);
  CHECK(window.text("policy.heads_note").find("A: 3 local : 1 global") != std::string::npos);
}

// W6: the prompt's progress stood there during the answer.
TEST_CASE("The status line tells how far the answer is, and where a run was stopped") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 20")});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", "one two three four five"}});
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 400}});
  window.command("run.start");
  window.wait({{"/progress/phase", "decode"}, {"/progress/value", {{"at_least", 10}}}});
  window.frames(3);
  const std::string running = window.text("status");
  CHECK(running.starts_with("decode "));
  CHECK(running.find(" / 400, ") != std::string::npos);
  CHECK(running.find(" tok/s, 0:") != std::string::npos);
  window.command("run.cancel");
  window.wait({{"/running", false}});
  window.frames(3);
  CHECK(window.text("status").starts_with("stopped at "));
}
