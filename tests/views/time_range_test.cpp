// The part of a run that all views show: zoomed, moved and dragged by the mouse, followed while time goes on.
#include <catch2/catch.hpp>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "tests/views/view_support.h"
#include "views/cache_timeline_view.h"
#include "views/figure/figure_builder.h"
#include "views/figure/lifeline_image.h"
#include "views/figure/recipe.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

RunRecord run_of(int n_tokens, RunStatus status = RunStatus::complete) {
  RunRecord run = random_run(3, {.prompt_len = n_tokens - 60, .n_new = 60});
  run.status = status;
  return run;
}

/// The deck as the window has it.
struct DeckStage {
  explicit DeckStage(RunRecord run) : a(shown(std::move(run))), deck(window.services) {}
  void draw() {
    window.frame([&] { deck.draw(context, 130); });
  }
  void click(const std::string& item) {
    window.click(item, [&] { deck.draw(context, 130); });
  }
  /// Presses at x, moves, lets go.
  void drag(float from, float to, float y) {
    ImGuiIO& io = ImGui::GetIO();
    for (const auto& [x, down] :
         {std::pair{from, false}, {from, true}, {(from + to) / 2, true}, {to, true}, {to, false}}) {
      io.MousePos = {x, y};
      io.MouseDown[0] = down;
      draw();
    }
    io.MousePos = {-1, -1};
    draw();
  }
  HeadlessWindow window;
  ShownRun a;
  Selection selection;
  ViewContext context{&a, nullptr, &selection, [this](const std::string& id) { command = id; }};
  std::string command;
  TimeDeck deck;
};

}  // namespace

TEST_CASE("A span stays inside the run, keeps its length while it moves, and what is under the cursor where it is") {
  CHECK(clamp_span({}, 100) == TokenSpan{0, 100});
  CHECK(clamp_span({90, 120}, 100) == TokenSpan{70, 100});
  CHECK(clamp_span({-5, 15}, 100) == TokenSpan{0, 20});
  CHECK(pan_span({10, 30}, 100, 1e9) == TokenSpan{80, 100});
  CHECK(pan_span({10, 30}, 100, -3.4) == TokenSpan{7, 27});
  CHECK(zoom_span({0, 1000}, 1000, 0.5, 0.25) == TokenSpan{125, 625});
  CHECK(zoom_span({125, 625}, 1000, 100, 0.25) == TokenSpan{0, 1000});
  CHECK(zoom_span({500, 508}, 1000, 0.5, 0.5).size() == kLeastSpan);
  CHECK(zoom_span({500, 508}, 1000, 1.01, 0.5).size() == 9);  // every notch does something
  CHECK(zoom_span({0, 5}, 5, 0.5, 0.5) == TokenSpan{0, 5});
  for (int n : {1, 7, 100, 131072}) {
    TokenSpan span{0, n};
    for (int i = 0; i < 200; ++i) {
      span = i % 3 == 2 ? pan_span(span, n, (i % 7 - 3) * 0.3 * span.size()) : zoom_span(span, n, 0.8, (i % 5) / 4.0);
      REQUIRE(span.begin >= 0);
      REQUIRE(span.end <= n);
      REQUIRE(span.size() >= std::min(n, kLeastSpan));
    }
  }
}

TEST_CASE("Every token of a span is in exactly one cell") {
  const TokenSpan span = GENERATE(TokenSpan{0, 10}, TokenSpan{7, 1000}, TokenSpan{3, 131075});
  const int cells = GENERATE(1, 3, 10, 700, 4000);
  const SpanCells cut(span, cells);
  REQUIRE(cut.cells <= span.size());
  CHECK(cut.begin(0) == span.begin);
  CHECK(cut.begin(cut.cells) == span.end);
  int wrong = 0;
  for (std::int32_t t = span.begin; t < span.end; ++t) wrong += !cut.tokens(cut.of(t)).contains(t);
  CHECK(wrong == 0);
}

TEST_CASE("A pixel of several tokens and queries has the mean colour of all of them") {
  const RunRecord run =
      GENERATE(random_run(3), random_run(3, {.policy = "full", .page_reads = true}),
               random_run(5, {.policy = "streaming:sinks=4,window=60"}), run_of(180, RunStatus::running));
  const TokenSpan queries{17, 171}, tokens{3, 160};
  const Image exact = lifeline_image(run, 1, 2, {queries, tokens, 4096, 4096}, true);
  REQUIRE(exact.columns == queries.size());
  REQUIRE(exact.rows == tokens.size());
  const Image whole = lifeline_image(run, 1, 2, 4096, true);
  const int n = run.n_tokens();
  const Image coarse = lifeline_image(run, 1, 2, {queries, tokens, 23, 19}, true);
  const SpanCells columns(queries, 23), rows(tokens, 19);
  const Colour nothing = state_colour(TokenState::future, true);
  for (int r = 0; r < 19; ++r) {
    for (int c = 0; c < 23; ++c) {
      double sum[3] = {0, 0, 0};
      int all = 0, painted = 0;
      for (int t = rows.begin(18 - r); t < rows.begin(19 - r); ++t) {
        for (int q = columns.begin(c); q < columns.begin(c + 1); ++q) {
          Colour k = exact.pixels[static_cast<std::size_t>(tokens.end - 1 - t) * exact.columns + q - queries.begin];
          REQUIRE(k == whole.pixels[static_cast<std::size_t>(n - 1 - t) * n + q]);
          painted += k.a != 0;
          if (k.a == 0) k = nothing;
          sum[0] += k.r, sum[1] += k.g, sum[2] += k.b;
          ++all;
        }
      }
      const Colour got = coarse.pixels[static_cast<std::size_t>(r) * 23 + c];
      CAPTURE(r, c, painted, all);
      REQUIRE((got.a == 0) == (painted == 0));
      if (painted == 0) continue;
      REQUIRE(std::abs(got.r - sum[0] / all) <= 1);
      REQUIRE(std::abs(got.g - sum[1] / all) <= 1);
      REQUIRE(std::abs(got.b - sum[2] / all) <= 1);
    }
  }
}

TEST_CASE("The wheel over the timeline zooms at the cursor, with Shift it scrolls, with Ctrl it zooms the tokens") {
  Stage<CacheTimelineView> s(run_of(4000));
  s.draw();
  CHECK(s.has("timeline.tokens_per_pixel"));
  const auto rect = *s.window.items.find("timeline.lifelines");
  const auto mark = *s.window.items.find("timeline.tokens_per_pixel");
  CHECK(mark.x + mark.w < rect.centre_x());  // the newest tokens are in the other corner
  const ImVec2 quarter{rect.x + rect.w / 4, rect.y + rect.h / 2};
  const auto draw = [&] { s.draw(1); };
  turn_wheel(quarter, 3, draw);
  const TokenSpan zoomed = shown_span(s.selection, 4000);
  CHECK(zoomed.size() == Approx(4000 * 0.512).margin(3));
  CHECK(zoomed.begin + zoomed.size() * 0.25 == Approx(1000).margin(8));  // a pixel is 8 tokens
  CHECK(s.selection.rows.empty());
  hold({.shift = true});
  turn_wheel(quarter, -1, draw);
  hold({});
  CHECK(shown_span(s.selection, 4000).size() == zoomed.size());
  CHECK(shown_span(s.selection, 4000).begin > zoomed.begin);
  hold({.ctrl = true});
  turn_wheel(quarter, 2, draw);
  hold({});
  CHECK(shown_rows(s.selection, 4000).size() == Approx(2560).margin(3));
  for (int i = 0; i < 40; ++i) turn_wheel(quarter, 2, draw);
  CHECK(shown_span(s.selection, 4000).size() == kLeastSpan);
  CHECK_FALSE(s.has("timeline.tokens_per_pixel"));  // every token has pixels
}

TEST_CASE("A drag with the right or the middle button takes along what lies under it, a double click shows all") {
  const int button = GENERATE(1, 2);
  Stage<CacheTimelineView> s(run_of(4000));
  s.selection.view = {1000, 2000};
  s.draw();
  const auto rect = *s.window.items.find("timeline.lifelines");
  ImGuiIO& io = ImGui::GetIO();
  const auto at = [&](float share, bool down) {
    io.MousePos = {rect.x + rect.w * share, rect.y + rect.h / 2};
    io.MouseDown[button] = down;
    s.draw(1);
  };
  at(0.5f, false), at(0.5f, true), at(0.6f, true), at(0.7f, true), at(0.7f, false);
  CHECK(s.selection.view.begin == Approx(800).margin(3));
  CHECK(s.selection.view.size() == 1000);
  CHECK(s.selection.token == -1);
  for (const bool down : {false, true, false, true, false}) {
    io.MouseDown[0] = down;
    s.draw(1);
  }
  CHECK(s.selection.view.empty());
}

TEST_CASE("The timeline's picture, its axes and its marks are of the part that is shown, and so is its figure") {
  Stage<CacheTimelineView> s(run_of(1000));
  s.selection.view = {200, 400};
  s.selection.rows = {100, 300};
  s.selection.q = 250;
  s.draw();
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  const TimelineOptions& options = std::get<TimelineOptions>(figure->options);
  CHECK(options.first == 200);
  CHECK(options.count == 200);
  CHECK(options.token_first == 100);
  CHECK(options.token_count == 200);
  const auto rect = *s.window.items.find("timeline.lifelines"), playhead = *s.window.items.find("timeline.q");
  CHECK((playhead.x - rect.x) / rect.w == Approx(50.5 / 200).margin(0.01));
  CHECK(s.window.written_in(ItemRect{rect.x - 60, rect.y, 55, rect.h}).find("200") != std::string::npos);  // a tick
  const FigureRecipe told{.options = options};
  CHECK(std::get<TimelineOptions>(parse_recipe(to_json(told), "r").options) == options);
  const BuiltFigure built = timeline_figure(*s.a.run, options, {});
  CHECK(built.data.n_rows() == 200);
  CHECK(built.caption.find("Queries 200–399. Tokens 100–299.") != std::string::npos);
  s.selection.q = 700;
  s.draw();
  CHECK_FALSE(s.has("timeline.q"));
}

TEST_CASE("The deck shows the whole run and in it what the views show: dragged it pans, at its ends it is resized") {
  DeckStage s(run_of(1000));
  s.draw();
  const auto all = *s.window.items.find("timeline.viewport"), map = *s.window.items.find("timeline.scrub");
  CHECK(all.w == Approx(map.w).margin(1));
  CHECK(s.window.items.text("timeline.range") == "1000 queries");
  const float y = all.centre_y();
  s.drag(map.x + map.w - 2, map.x + map.w * 0.5f, y);  // its right end
  CHECK(s.selection.view.begin == 0);
  CHECK(s.selection.view.end == Approx(500).margin(4));
  s.drag(map.x + 1, map.x + map.w * 0.3f, y);  // its left end
  CHECK(s.selection.view.begin == Approx(300).margin(4));
  const int size = s.selection.view.size();
  s.drag(map.x + map.w * 0.4f, map.x + map.w * 0.7f, y);  // its middle
  CHECK(s.selection.view.begin == Approx(600).margin(6));
  CHECK(s.selection.view.size() == size);
  s.drag(map.x + map.w * 0.1f, map.x + map.w * 0.1f, y);  // beside it: it comes there
  CHECK((s.selection.view.begin + s.selection.view.end) / 2 == Approx(100).margin(4));
  CHECK_FALSE(s.selection.q.has_value());
  const auto thumb = *s.window.items.find("timeline.viewport");
  CHECK(thumb.x == Approx(map.x + static_cast<float>(s.selection.view.begin) / 1000 * map.w).margin(1));
  CHECK(s.window.items.text("timeline.range")->starts_with("queries " + std::to_string(s.selection.view.begin) + "–"));
  s.click("timeline.fit");
  CHECK(s.selection.view.empty());
  CHECK_FALSE(s.window.items.find("timeline.fit").has_value());
}

TEST_CASE("The wheel over the deck zooms the part that is shown at the query under the cursor") {
  DeckStage s(run_of(1000));
  s.draw();
  const auto map = *s.window.items.find("timeline.scrub");
  turn_wheel({map.x + map.w * 0.75f, map.centre_y()}, 4, [&] { s.draw(); });
  const TokenSpan span = s.selection.view;
  CHECK(span.size() == Approx(410).margin(3));
  CHECK(span.begin + 0.75 * span.size() == Approx(750).margin(4));
}

TEST_CASE("A part that ends at the run's end moves with it while the run goes on, any other stays") {
  Selection selection;
  const RunRecord early = run_of(300, RunStatus::running), late = run_of(400, RunStatus::running);
  show_span(selection, {200, 300}, early);
  CHECK(shown_span(selection, late.n_tokens()) == TokenSpan{300, 400});
  show_span(selection, {100, 200}, early);
  CHECK(shown_span(selection, late.n_tokens()) == TokenSpan{100, 200});
  follow_end(selection, late);
  CHECK(shown_span(selection, late.n_tokens()) == TokenSpan{300, 400});
  show_span(selection, {200, 300}, run_of(300));  // it has ended: there is nothing to follow
  CHECK(shown_span(selection, 400) == TokenSpan{200, 300});
}

TEST_CASE("Scrubbing takes the part that is shown along, unless a person has looked away") {
  const RunRecord run = run_of(1000);
  Selection selection;
  show_span(selection, {100, 200}, run);
  scrub_to(selection, 150, run);
  CHECK(selection.view == TokenSpan{100, 200});  // q came from outside, where nobody looked
  scrub_to(selection, 220, run);
  CHECK(selection.view == TokenSpan{121, 221});
  scrub_to(selection, 50, run);
  CHECK(selection.view == TokenSpan{50, 150});
  show_span(selection, {600, 700}, run);
  scrub_to(selection, 10, run);
  CHECK(selection.view == TokenSpan{600, 700});
  CHECK(selection.q == 10);
  scrub_to(selection, 5000, run);
  CHECK(selection.q == 999);
}

TEST_CASE("Another run is shown whole, whatever part of the one before was") {
  Selection selection{.layer = 1, .token = 5, .q = 7, .view = {10, 20}, .rows = {3, 30}, .brush = {4, 9}};
  selection.find = "the";
  selection.play.on = true;
  start_over(selection);
  CHECK(shown_span(selection, 50) == TokenSpan{0, 50});
  CHECK(shown_rows(selection, 50) == TokenSpan{0, 50});
  CHECK(selection.brush.empty());
  CHECK_FALSE(selection.q.has_value());
  CHECK_FALSE(selection.play.on);
  CHECK(selection.token == -1);
  CHECK(selection.layer == 1);
  CHECK(selection.find == "the");
}

TEST_CASE("Playing goes on at its speed, ends at the end of what is shown, or begins there again") {
  const RunRecord run = run_of(1000);
  Selection selection;
  show_span(selection, {100, 200}, run);
  selection.play = {.on = true, .speed = 30};
  play_on(selection, run, 0.5);  // following: it begins where the shown part does
  CHECK(selection.q == 115);
  for (int i = 0; i < 10; ++i) play_on(selection, run, 0.01);  // a tenth of a second in frames: three queries
  CHECK(selection.q == 118);
  play_on(selection, run, 60);
  CHECK(selection.q == 199);
  CHECK_FALSE(selection.play.on);
  play_on(selection, run, 1);
  CHECK(selection.q == 199);
  selection.play = {.on = true, .speed = 30, .loop = true};
  selection.q = 190;
  play_on(selection, run, 0.5);
  CHECK(selection.q == 105);
  CHECK(selection.play.on);
  selection.brush = {110, 120};
  play_on(selection, run, 1.0 / 30);
  CHECK(selection.q == 111);
}

TEST_CASE("The deck's buttons play, step, change the speed, loop and ask for places") {
  DeckStage s(run_of(300));
  s.selection.q = 100;
  s.draw();
  s.click("timeline.on");
  CHECK(s.selection.q == 101);
  s.click("timeline.back");
  s.click("timeline.back");
  CHECK(s.selection.q == 99);
  s.click("timeline.play");
  CHECK(s.selection.play.on);
  CHECK(s.window.items.text("timeline.play") == "Pause");
  s.click("timeline.play");
  CHECK_FALSE(s.selection.play.on);
  s.click("timeline.speed");
  CHECK(s.window.items.text("timeline.speed") == "120 queries/s");
  s.click("timeline.speed");
  s.click("timeline.speed");
  CHECK(s.selection.play.speed == 8);
  s.click("timeline.loop");
  CHECK(s.selection.play.loop);
  s.click("timeline.go_to");
  CHECK(s.command == "go.to");
  s.click("timeline.find");
  CHECK(s.command == "find.open");
}
