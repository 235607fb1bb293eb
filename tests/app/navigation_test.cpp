// Time and search by commands, and by the keys of the real window.

#include <catch2/catch.hpp>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;
using views::TokenSpan;

namespace {

/// The program without a window, with a trace of 180 tokens as A.
struct Program : test::Program {
  test::TemporaryFolder folder;

  Program() {
    const std::string trace = (folder / "a.h5").string();
    save_trace(trace, test::random_run(3), false);
    session.traces().open(trace);
    settle();
    REQUIRE(session.runs().shown_a() != nullptr);
  }
  views::Selection& selection() { return session.selection(); }
  TokenSpan shown() { return views::shown_span(selection(), 180); }
};

}  // namespace

TEST_CASE("Commands show a part of the run, zoom, move and fit it, and refuse what is no part") {
  Program p;
  CHECK(p.run("view.range", {{"begin", 40}, {"end", 100}}) == nlohmann::json{{"begin", 40}, {"end", 100}});
  CHECK(p.shown() == TokenSpan{40, 100});
  CHECK(p.run("view.range", {{"begin", 100}, {"end", 1000}})["end"] == 180);
  for (const auto& [begin, end] : {std::pair{-1, 5}, {50, 50}, {60, 40}, {180, 190}})
    CHECK_THROWS_AS(p.run("view.range", {{"begin", begin}, {"end", end}}), Error);
  p.run("view.range", {{"begin", 40}, {"end", 140}});
  p.run("view.pan_left");
  CHECK(p.shown() == TokenSpan{25, 125});
  p.run("view.pan_right");
  p.run("scrub.to", {{"q", 60}});
  p.run("view.zoom_in");
  CHECK(p.shown().size() == 80);
  CHECK(p.shown().contains(60));
  for (int i = 0; i < 30; ++i) p.run("view.zoom_in");
  CHECK(p.shown().size() == views::kLeastSpan);
  CHECK(p.shown().contains(p.selection().q.value()));
  for (int i = 0; i < 30; ++i) p.run("view.zoom_out");
  CHECK(p.shown() == TokenSpan{0, 180});
  p.run("view.range", {{"begin", 40}, {"end", 140}});
  p.selection().rows = {3, 50};
  p.run("view.fit");
  CHECK(p.selection().view.empty());
  CHECK(p.selection().rows.empty());
}

TEST_CASE("One goes to a query, a token, a layer or a head by its number, and only where it is") {
  Program p;
  p.run("view.range", {{"begin", 0}, {"end", 20}});
  p.run("go.to", {{"q", 100}});
  CHECK(p.selection().q == 100);
  CHECK(p.shown().contains(100));
  p.run("go.to", {{"place", "l 1 h 2, t 7"}});
  CHECK(p.selection().layer == 1);
  CHECK(p.selection().kv_head == 2);
  CHECK(p.selection().token == 7);
  CHECK(p.selection().q == 100);
  CHECK(p.shown().contains(7));
  p.run("go.to", {{"place", "150"}});
  CHECK(p.selection().q == 150);
  for (const char* wrong : {"", "x 3", "t", "t 5000", "l 2", "h 9", "180", "3 4", "99999999999", "5%"}) {
    INFO(wrong);
    CHECK_THROWS_AS(p.run("go.to", {{"place", wrong}}), Error);
    CHECK(p.selection().q == 150);
  }
  CHECK_FALSE(p.ui.go_to);
  p.run("go.to");
  CHECK(p.ui.go_to);
}

TEST_CASE("The next and the one before of what is found are gone to, round the end") {
  Program p;
  const auto found = p.run("find.set", {{"text", "position>=40 & position<43"}});
  CHECK(found == nlohmann::json{{"tokens", 3}, {"places", 3}});
  p.run("view.range", {{"begin", 100}, {"end", 120}});
  CHECK(p.run("find.next") == 40);
  CHECK(p.shown().contains(40));
  CHECK(p.run("find.next") == 41);
  CHECK(p.run("find.next") == 42);
  CHECK(p.run("find.next") == 40);
  CHECK(p.run("find.prev") == 42);
  CHECK(p.selection().token == 42);
  CHECK_THROWS_WITH(p.run("find.set", {{"text", "score>much"}}), Catch::Contains("a number after"));
  p.run("find.set", {{"text", "no such words here"}});
  CHECK(p.run("find.next").is_null());
  CHECK(p.session.messages().notice() == "no matches");
  p.session.poll();
  CHECK(p.session.messages().notice_is_fresh());
  p.run("find.set", {{"text", "no such word either"}});
  p.session.poll();
  CHECK_FALSE(p.session.messages().notice_is_fresh());  // it was of another text
  p.run("find.clear");
  p.run("find.next");  // nothing to go on with: it asks
  CHECK(p.ui.find);
}

TEST_CASE("A range is marked by a command, shown by another, and let go") {
  Program p;
  CHECK_THROWS_AS(p.run("view.to_brush"), Error);
  p.run("selection.brush", {{"begin", 30}, {"end", 50}});
  CHECK(p.selection().brush == TokenSpan{30, 50});
  p.run("view.to_brush");
  CHECK(p.shown() == TokenSpan{30, 50});
  CHECK_THROWS_AS(p.run("selection.brush", {{"begin", 50}, {"end", 30}}), Error);
  p.run("selection.brush");
  CHECK(p.selection().brush.empty());
}

TEST_CASE("Playing starts and stops, and whoever scrubs stops it") {
  Program p;
  p.run("play.toggle");
  CHECK(p.selection().play.on);
  p.run("scrub.next");
  CHECK_FALSE(p.selection().play.on);
  p.run("play.speed", {{"speed", 500}});
  CHECK(p.selection().play.speed == 500);
  CHECK_THROWS_AS(p.run("play.speed", {{"speed", 0}}), Error);
  p.run("play.loop");
  CHECK(p.selection().play.loop);
}

TEST_CASE("In the window one searches, goes to a query, zooms and plays by the keys alone") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string();
  save_trace(trace, test::random_run(3, {.prompt_len = 600, .n_new = 60}), false);
  WindowDriver window(display, {.engine = "exit 0", .words = {trace}});
  window.wait({{"/a/status", "complete"}});
  window.frames(3);
  CHECK(window.text("timeline.range") == "660 queries");

  window.key("ctrl+g");
  window.wait({{"/ui/text_input", true}});
  window.type("300");
  window.key("Return");
  window.wait({{"/selection/q", 300}, {"/ui/text_input", false}});
  window.key("w w w");
  window.frames(3);
  const std::string zoomed = window.text("timeline.range");
  CHECK(zoomed.starts_with("queries "));
  window.key("d");
  window.frames(2);
  CHECK(window.text("timeline.range") != zoomed);
  window.key("f");
  window.frames(2);
  CHECK(window.text("timeline.range") == "660 queries");

  window.key("slash");
  window.wait({{"/ui/text_input", true}});
  window.type("score>");
  window.frames(3);
  CHECK(window.text("find.line") == "\"score>\": expected a number after \"score>\"");
  window.click("find.close");
  window.frames(2);
  window.key("ctrl+f");
  window.wait({{"/ui/text_input", true}});
  window.type("position>=40 & position<43");
  window.frames(3);
  CHECK(window.text("find.line") == "3 tokens");
  window.key("Return");
  window.wait({{"/selection/token", 40}});
  window.frames(2);
  CHECK(window.text("find.line") == "1 of 3 tokens");
  window.key("Escape");
  window.wait({{"/ui/text_input", false}});
  window.key("n");
  window.wait({{"/selection/token", 41}});
  window.key("shift+n");
  window.wait({{"/selection/token", 40}});

  window.key("t");
  window.frames(3);
  CHECK_FALSE(window.rect("layers.strip").empty());
  window.command("play.speed", {{"speed", 5000}});
  window.key("space");
  window.wait({{"/selection/q", 659}});  // up to the end of what is shown
  window.frames(2);
  CHECK(window.text("timeline.play") == "Play");
}
