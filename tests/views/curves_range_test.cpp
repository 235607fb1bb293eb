// The part of a run that Curves and Attention show: the one that all views show, moved by the mouse in them too.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "tests/views/view_support.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/recipe.h"
#include "views/run_curves_view.h"
#include "views/token_attention_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

RunRecord run_of(int n_tokens) { return random_run(3, {.prompt_len = n_tokens - 60, .n_new = 60}); }

CurvesOptions curves_of(Stage<RunCurvesView>& s) { return std::get<CurvesOptions>(s.view.figure(s.context)->options); }

const std::vector<std::int64_t>& whole_column(const BuiltFigure& built, const std::string& name) {
  return std::get<std::vector<std::int64_t>>(std::ranges::find(built.data.columns, name, &FigureColumn::name)->values);
}

std::shared_ptr<const TokenAttention> attention_of(const RunRecord& run, int token) {
  TokenAttention answer;
  answer.layer = 0, answer.n_heads = run.model.n_heads, answer.n_queries = run.n_tokens();
  answer.tokens = {token};
  answer.probability.assign(static_cast<std::size_t>(answer.n_heads) * static_cast<std::size_t>(answer.n_queries),
                            0.01f);
  return std::make_shared<const TokenAttention>(answer);
}

}  // namespace

TEST_CASE("the wheel over Curves zooms the part that all views show, the right button moves it, the export has it") {
  Stage<RunCurvesView> s(run_of(400), {.q = 200});
  s.draw();
  CHECK(curves_of(s).count == 0);
  const ItemRect plot = *s.window.items.find("curves.plot");
  turn_wheel({plot.x + plot.w / 4, plot.centre_y()}, 3, [&] { s.draw(1); });
  s.draw();
  const TokenSpan span = s.selection.view;
  CHECK(span.size() == Approx(400 * std::pow(kZoomStep, 3)).margin(1));
  CHECK((100 - span.begin) / static_cast<double>(span.size()) == Approx(0.25).margin(0.02));
  CHECK(curves_of(s).first == span.begin);
  CHECK(curves_of(s).count == span.size());
  const RunRecord* runs[] = {s.a.run.get()};
  const BuiltFigure built = curves_figure(runs, curves_of(s), {});
  CHECK(whole_column(built, "first").front() >= span.begin - 2);
  CHECK(whole_column(built, "last").back() < span.end + 2);
  CHECK(whole_column(built, "first").size() > 80);  // as many points as of the whole
  ImGuiIO& io = ImGui::GetIO();
  for (const auto& [share, down] : {std::pair{0.5f, false}, {0.5f, true}, {0.75f, true}, {0.75f, false}}) {
    io.MousePos = {plot.x + share * plot.w, plot.centre_y()};
    io.MouseDown[1] = down;
    s.draw(1);
  }
  CHECK(s.selection.view.begin == Approx(std::max(0.0, span.begin - 0.25 * span.size())).margin(1));
  CHECK(s.selection.view.size() == span.size());
}

// Peaks changed with the zoom without a word.
TEST_CASE("Curves say how many positions a point is the mean of, and nothing where each has its own") {
  Stage<RunCurvesView> s(run_of(400), {.q = 200});
  s.draw();
  CHECK(s.text("curves.mean_of") == "mean of 4 or 5 positions per point");  // 400 over 96 points
  const ItemRect mark = *s.window.items.find("curves.mean_of"), plot = *s.window.items.find("curves.plot");
  CHECK(mark.y + mark.h <= plot.y);
  ImGui::GetIO().MousePos = {mark.centre_x(), mark.centre_y()};
  s.draw();
  CHECK_THAT(s.text("hint"), Catch::Contains("at most 96 points") && Catch::Contains("no peak is lost"));
  s.selection.view = {100, 292};
  s.draw();
  CHECK(s.text("curves.mean_of") == "mean of 2 positions per point");
  s.selection.view = {100, 196};
  s.draw();
  CHECK_FALSE(s.has("curves.mean_of"));
  CHECK(positions_of_a_point(97, 96) == "1 or 2 positions");
  CHECK(positions_of_a_point(0, 96).empty());
}

TEST_CASE("In a narrow pane the note of Curves is cut with an ellipsis and its hint begins with the whole of it") {
  Stage<RunCurvesView> s(run_of(400), {.q = 200}, {150, 500});
  s.draw();
  CHECK(s.text("curves.mean_of") == "mean of 4 or 5 positions per point");
  CHECK_THAT(s.window.written_in("curves.mean_of"), Catch::StartsWith("meanof") && Catch::EndsWith("…"));
  const ItemRect mark = *s.window.items.find("curves.mean_of");
  CHECK(mark.x + mark.w <= 150);
  ImGui::GetIO().MousePos = {mark.centre_x(), mark.centre_y()};
  s.draw();
  CHECK_THAT(s.text("hint"), Catch::StartsWith("Mean of 4 or 5 positions per point. The line has at most 96"));
}

TEST_CASE("No word of a legend of curves is cut, and half of a figure's height is the plot's") {
  const RunRecord a = run_of(400), b = run_of(300);
  const RunRecord* runs[] = {&a, &b};
  std::set<std::string> seen;
  for (double width = 100; width < 700; width += 50) {
    for (const double height : {120.0, 180.0, 300.0}) {
      CAPTURE(width, height);
      FigureStyle style;
      style.width = width, style.height = height;
      style.tick_size = 11, style.label_size = 12;  // as in the window
      const Figure figure =
          curves_figure(runs, {.quantity = RunQuantity::density, .compare = MapCompare::side_by_side}, style).figure;
      CHECK(figure.panel("curves")->box.h >= height / 2);
      for (const Primitive& item : figure.items) {
        const auto* text = std::get_if<Text>(&item);
        if (text == nullptr || text->anchor != Anchor::start) continue;
        CAPTURE(text->utf8);
        CHECK(text->at.x + text_width(text->utf8, text->role, text->size) <= width);
        seen.insert(text->utf8);
      }
    }
  }
  for (const char* label : {"middle half", "middle half of the KV heads", "answer begins"}) CHECK(seen.contains(label));
}

// Beside a run with a long name B's line had none: whose it is was nowhere to be read.
TEST_CASE(
    "Of the lines of A and B both have their names in the legend of curves, however little room there is, or none") {
  const RunRecord a = run_of(400), b = run_of(300);
  const RunRecord* runs[] = {&a, &b};
  std::set<std::string> seen;
  for (double width = 60; width < 700; width += 20) {
    for (const double height : {100.0, 115.0, 135.0, 180.0, 300.0}) {
      CAPTURE(width, height);
      FigureStyle style;
      style.width = width, style.height = height;
      style.tick_size = 9, style.label_size = 12;
      const CurvesOptions options{.quantity = RunQuantity::density,
                                  .compare = MapCompare::side_by_side,
                                  .name_a = "A half replay",
                                  .name_b = "B"};
      int of_a = 0, of_b = 0;
      for (const Primitive& item : curves_figure(runs, options, style).figure.items) {
        const auto* text = std::get_if<Text>(&item);
        if (text == nullptr || text->anchor != Anchor::start) continue;
        of_a += text->utf8.starts_with("A half replay");
        of_b += text->utf8 == "B" || text->utf8.starts_with("B, ");
        seen.insert(text->utf8);
      }
      CHECK(of_a == of_b);
      if (width > 160) CHECK(of_b == 1);
    }
  }
  CHECK(seen.contains("B"));  // by its name alone
}

TEST_CASE("Names of any length leave the curves a legend: they are cut so that both stand there") {
  const RunRecord a = run_of(400), b = run_of(300);
  const RunRecord* runs[] = {&a, &b};
  for (const double width : {230.0, 400.0}) {
    FigureStyle style;
    style.width = width, style.height = 150;
    style.tick_size = 9, style.label_size = 12;
    const CurvesOptions options{.quantity = RunQuantity::nll,
                                .compare = MapCompare::side_by_side,
                                .name_a = "A baseline of the whole long study with a pooled budget of one half of it",
                                .name_b = "B heavy hitter oracle with a very long name that goes on and on and on"};
    std::vector<std::string> names;
    for (const Primitive& item : curves_figure(runs, options, style).figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (text == nullptr || text->anchor != Anchor::start) continue;
      names.push_back(text->utf8);
      CHECK(text->at.x + text_width(text->utf8, text->role, text->size) <= width);
    }
    REQUIRE(names.size() == 2);
    CHECK_THAT(names[0], Catch::StartsWith("A base"));
    CHECK_THAT(names[1], Catch::StartsWith("B heav"));
    for (const std::string& name : names) CHECK((width > 300 || name.ends_with("…")));
  }
}

TEST_CASE("a peak of a position stays within the curve's range at every zoom, in the picture and in the export") {
  RunRecord run = run_of(400);
  for (float& v : run.logprobs) v = -1;
  run.logprobs[201] = -9;
  const RunRecord* runs[] = {&run};
  for (const CurvesOptions& options : {CurvesOptions{}, CurvesOptions{.first = 100, .count = 200}}) {
    const BuiltFigure built = curves_figure(runs, options, {});
    const auto &mean = column<double>(built.data, "mean"), &greatest = column<double>(built.data, "greatest");
    CHECK(*std::ranges::max_element(greatest) == 9);
    CHECK(*std::ranges::max_element(mean) < 6);
    CHECK_THAT(built.caption, Catch::Contains(" positions, their range as a band"));
    double highest = 1e9, lowest_line = 1e9;  // the axis goes down
    for (const Primitive& item : built.figure.items) {
      if (const auto* area = std::get_if<Polygon>(&item))
        for (const Point& p : area->points) highest = std::min(highest, p.y);
      if (const auto* line = std::get_if<Polyline>(&item); line && line->points.size() > 20)
        for (const Point& p : line->points) lowest_line = std::min(lowest_line, p.y);
    }
    CHECK(highest < lowest_line - 5);
  }
  const BuiltFigure each = curves_figure(runs, {.first = 180, .count = 40}, {});
  CHECK_THAT(each.caption, !Catch::Contains("band") && !Catch::Contains("each point"));
  CHECK(column<double>(each.data, "mean")[21] == 9);
  CHECK(column<double>(each.data, "greatest")[21] == 9);
}

TEST_CASE("the axis of Curves names whole positions, each where its value is drawn") {
  const RunRecord run = run_of(400);
  const RunRecord* runs[] = {&run};
  const BuiltFigure built = curves_figure(runs, {.first = 12, .count = 6}, {});
  const Polyline* line = nullptr;
  std::map<std::string, double> ticks;
  for (const Primitive& item : built.figure.items) {
    if (const auto* of_values = std::get_if<Polyline>(&item); of_values && of_values->points.size() == 6)
      line = of_values;
    if (const auto* text = std::get_if<Text>(&item)) ticks[text->utf8] = text->at.x;
  }
  REQUIRE(line != nullptr);
  for (int position = 12; position < 18; ++position) {
    CAPTURE(position);
    REQUIRE(ticks.contains(std::to_string(position)));
    CHECK(ticks[std::to_string(position)] == Approx(line->points[static_cast<std::size_t>(position - 12)].x));
  }
  CHECK_FALSE(ticks.contains("18"));  // not shown: it comes after the last
}

TEST_CASE("lines of two lengths are drawn through points of the same positions") {
  const RunRecord a = run_of(400), b = run_of(300);
  const RunRecord* runs[] = {&a, &b};
  const BuiltFigure built = curves_figure(runs, {.compare = MapCompare::side_by_side}, {});
  const auto& name = column<std::string>(built.data, "run");
  const auto &first = whole_column(built, "first"), &last = whole_column(built, "last");
  const auto of_b = static_cast<std::size_t>(std::ranges::find(name, "B") - name.begin());
  REQUIRE(of_b == 96);
  for (std::size_t i = of_b; i < first.size(); ++i) {
    CHECK(first[i] == first[i - of_b]);
    CHECK(last[i] == std::min<std::int64_t>(last[i - of_b], 299));
  }
}

TEST_CASE("zoomed, a drag over Curves goes to the query under the mouse") {
  Stage<RunCurvesView> s(run_of(400), {.q = 200, .view = {100, 300}});
  s.draw();
  const ItemRect plot = *s.window.items.find("curves.plot");
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {plot.x + 0.75f * plot.w, plot.centre_y()};
  for (const bool down : {false, true, true, false}) {
    io.MouseDown[0] = down;
    s.draw(1);
  }
  CHECK(*s.selection.q == Approx(250).margin(1));
}

TEST_CASE("a recipe of curves has the part that is shown where there is one, and reads it back") {
  FigureRecipe recipe{.traces = {"a.h5"}, .options = CurvesOptions{}};
  CHECK_FALSE(to_json(recipe).contains("first"));
  recipe.options = CurvesOptions{.first = 40, .count = 80};
  CHECK(std::get<CurvesOptions>(parse_recipe(to_json(recipe), "recipe.json").options) ==
        CurvesOptions{.first = 40, .count = 80});
  const RunRecord run = run_of(180);
  const RunRecord* runs[] = {&run};
  CHECK_THROWS_WITH(curves_figure(runs, {.first = 180, .count = 5}, {}), Catch::Contains("positions from 180 on"));
  CHECK_THAT(curves_figure(runs, {.first = 40, .count = 80}, {}).caption, Catch::Contains("positions 40 to 119"));
}

TEST_CASE("the axis of Attention names whole queries, each where its value is drawn") {
  const RunRecord run = run_of(400);
  const RunRecord* runs[] = {&run};
  const BuiltFigure built =
      token_attention_figure(runs, {.attention = attention_of(run, 200), .first = 212, .count = 6}, {});
  std::vector<double> values;
  std::map<std::string, double> ticks;
  for (const Primitive& item : built.figure.items) {
    if (const auto* line = std::get_if<Polyline>(&item); line && line->points.size() == 6)
      for (const Point& p : line->points) values.push_back(p.x);
    if (const auto* text = std::get_if<Text>(&item)) ticks[text->utf8] = text->at.x;
  }
  REQUIRE(values.size() == 6);
  CHECK(ticks["212"] == Approx(values[0]));
  CHECK(ticks["217"] == Approx(values[5]));
  CHECK_FALSE(ticks.contains("218"));
}

TEST_CASE("the wheel over Attention zooms the part that all views show, at the query under the mouse") {
  AskedAttention asked;
  Stage<TokenAttentionView> s(run_of(400), {.token = 200, .q = 300});
  asked.answer = attention_of(*s.a.run, 200);
  s.context.attention = &asked;
  s.draw();
  const ItemRect plot = *s.window.items.find("attention.plot");  // queries 200 to 399
  turn_wheel({plot.centre_x(), plot.centre_y()}, 3, [&] { s.draw(1); });
  const TokenSpan span = s.selection.view;
  CHECK(span.size() == Approx(400 * std::pow(kZoomStep, 3)).margin(1));
  CHECK((300 - span.begin) / static_cast<double>(span.size()) == Approx(0.75).margin(0.02));
  const auto options = std::get<TokenAttentionOptions>(s.view.figure(s.context)->options);
  CHECK(options.first == std::max(200, span.begin));
  CHECK(options.first + options.count == span.end);
}

TEST_CASE("Curves in a region without room for them say so") {
  Stage<RunCurvesView> s(run_of(400), {.q = 200}, {150, 120});
  s.draw();
  CHECK(s.has("too_little.curves"));
  Stage<RunCurvesView> enough(run_of(400), {.q = 200}, {400, 300});
  enough.draw(6);
  CHECK_FALSE(enough.has("too_little.curves"));
  CHECK(enough.has("curves.plot"));
}

TEST_CASE("The name of a low picture's vertical axis stays inside the picture") {
  const RunRecord run = run_of(400);
  for (double height = 40; height < 300; height += 10) {
    CAPTURE(height);
    const FigureStyle style{.width = 200, .height = height};
    const Figure figure = curves_figure(std::vector<const RunRecord*>{&run}, {}, style).figure;
    for (const Primitive& item : figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (text == nullptr || text->angle != 90) continue;
      const double half = text_width(text->utf8, FontRole::text, text->size) / 2;
      CHECK(text->at.y - half >= 0);
      CHECK(text->at.y + half <= figure.height);
    }
  }
}
