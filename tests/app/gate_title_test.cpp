// What gates are called in the window, and what a click on one does.

#include "app/session/gate_title.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

TEST_CASE("Heads of the head board have words for a name, other gates their own") {
  app::GateFacts gate;
  gate.gate.name = "board-00ff";
  gate.alpha = {1, 0, 0, 1, 0, 0};
  CHECK(app::gate_title(gate) == "heads from the head board (2 of 6 global)");
  CHECK(app::gate_title(std::filesystem::path("/state/heads/board-00ff")) == "heads from the head board");
  gate.gate.name = "study-00ff";  // they were said to be the board's, which may have others
  CHECK(app::gate_title(gate) == "heads from the study (2 of 6 global)");
  gate.gate.name = "wgkv-0.01";
  CHECK(app::gate_title(gate) == "wgkv-0.01");
  CHECK(app::gate_title(std::filesystem::path("/gates/wgkv.pt")) == "wgkv");
}

// It read "Hybrid: board-8c2f91aa00000000".
WINDOW_TEST("A hybrid of heads from the board is called so by the policy and the list of gates") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("policy.set", {{"policy", "streaming:sinks=4,window=40"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("board.set", {{"heads", "0.0 1.1"}});
  window.command("board.measure");
  CHECK_THAT(window.text_soon("policy.combo", "board"),
             Catch::EndsWith(": heads from the head board (2 of 24 global)"));
  window.click("button.models");
  window.frames(3);
  const nlohmann::json items = window.request({{"query", "items"}})["items"];
  const auto board = std::ranges::find_if(items, [](const nlohmann::json& item) {
    return item.get<std::string>().starts_with("gate.board-");  // for commands it is the directory's name
  });
  REQUIRE(board != items.end());
  CHECK_THAT(window.text(board->get<std::string>() + ".title"),
             Catch::Equals("heads from the head board (2 of 24 global)"));
}

WINDOW_TEST("A gate that the policy does not read says which policy it has become, and Ctrl+Z takes both back") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  const auto before = window.state()["parameters"]["policy"];
  const auto gate = window.state()["gate"];
  window.click("button.models");
  window.click("gate.sp-kv-0.02");
  window.wait({{"/engine", "ready"}, {"/gate", "sp-kv-0.02"}});
  CHECK_THAT(window.text_soon("status", "policy changed to"),
             Catch::StartsWith("policy changed to SP-KV, which reads this gate (Ctrl+Z undoes both)"));
  window.key("Escape");
  window.key("ctrl+z");
  window.wait({{"/engine", "ready"}, {"/parameters/policy", before}, {"/gate", gate}});
  CHECK_THAT(window.text("status"), !Catch::Contains("policy changed to"));
}
