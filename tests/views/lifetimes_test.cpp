// Lifetimes: every bar, line and cell against plain loops over tokens and queries, the order of the rows, the mouse.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <tuple>

#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/lifetimes_figure.h"
#include "views/figure/lifetimes_image.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/recipe.h"
#include "views/figure/state_colours.h"
#include "views/lifetimes_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

std::vector<TokenLife> lives_of(const RunRecord& run, const LifetimesOptions& o) {
  return lifetimes_of(run, head_verdicts(run, o.layer, o.kv_head), o);
}

/// What a token of head L1 H2 is at a query, and how it is drawn; nothing: it is not read, or there is no such query.
std::optional<Colour> drawn_at(const RunRecord& run, int t, int q, bool pale) {
  if (q < t || q >= run.queries()) return std::nullopt;
  const std::int32_t evict_at = run.evict_at.row(1, 2)[static_cast<std::size_t>(t)];
  if (!visible(q, t, evict_at)) {
    const EvictionVerdict verdict =
        run.future_mass.empty() ? EvictionVerdict::unknown : eviction_verdict(run, 1, 2, t).verdict;
    return pale ? pale_life_colour(verdict, false) : eviction_colour(verdict, false);
  }
  const RetentionGeometry geometry = run.geometry(1, 2);
  return state_colour(t < geometry.n_sink       ? TokenState::sink
                      : q - geometry.window < t ? TokenState::window
                                                : TokenState::kept,
                      false);
}

/// The colour of the last bar or line over a point.
std::optional<Colour> colour_at(const Figure& figure, Point p) {
  std::optional<Colour> found;
  for (const Primitive& item : figure.items) {
    if (const auto* box = std::get_if<FillBox>(&item); box != nullptr && box->box.contains(p)) found = box->colour;
    const auto* line = std::get_if<Polyline>(&item);
    if (line != nullptr && line->dash == 0 && line->points.size() == 2 && line->points[0].y == line->points[1].y &&
        std::abs(line->points[0].y - p.y) < 0.01 && line->points[0].x <= p.x && p.x <= line->points[1].x)
      found = line->colour;
  }
  return found;
}

const Image& only_image(const Figure& figure) {
  const Image* found = nullptr;
  for (const Primitive& item : figure.items)
    if (const auto* image = std::get_if<Image>(&item)) found = image;
  REQUIRE(found != nullptr);
  return *found;
}

FigureStyle sized(double width, double height) {
  FigureStyle style;
  style.width = width, style.height = height;
  return style;
}

}  // namespace

TEST_CASE("Each query of each row has the colour of what the token is to it, in every order and part") {
  const RunRecord run = random_run(3, {.oracle = GENERATE(true, false), .last_token_fed = false});
  LifetimesOptions o{.layer = 1, .kv_head = 2};
  o.order = GENERATE(LifeOrder::position, LifeOrder::cost, LifeOrder::life);
  if (o.order == LifeOrder::cost && run.future_mass.empty()) return;
  const int part = GENERATE(0, 1, 2);
  if (part > 0) o.token = 20, o.n_tokens = 90;
  if (part > 1) o.row = 11, o.n_rows = 7, o.first = 37, o.count = 80;
  const std::vector<TokenLife> lives = lives_of(run, o);
  const Figure figure = lifetimes_picture(run, lives, o, sized(900, 800));
  const Box box = figure.panel("lives")->box;
  const TokenSpan rows = lifetime_rows(o, lives.size()), queries = lifetime_queries(run, o);
  CHECK(rows.size() == (part == 0 ? run.queries() : part == 1 ? 90 : 7));
  CHECK(queries == (part > 1 ? TokenSpan{37, 117} : TokenSpan{0, run.n_tokens()}));
  int wrong = 0;
  for (int row = rows.begin; row < rows.end; ++row) {
    const double y = box.y + (row - rows.begin + 0.5) * box.h / rows.size();
    for (int q = queries.begin; q < queries.end; ++q) {
      const double x = box.x + (q - queries.begin + 0.5) * box.w / queries.size();
      wrong += colour_at(figure, {x, y}) != drawn_at(run, lives[static_cast<std::size_t>(row)].t, q, false);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Where rows are lower than bars each cell has the most common state of its tokens at its last query") {
  const RunRecord run = random_run(3);
  LifetimesOptions o{.layer = 1, .kv_head = 2};
  o.order = GENERATE(LifeOrder::position, LifeOrder::cost, LifeOrder::life);
  if (GENERATE(false, true)) o.token = 15, o.n_tokens = 140, o.row = 4, o.n_rows = 130, o.first = 30, o.count = 111;
  const auto [max_columns, max_rows] = GENERATE(std::pair{4096, 4096}, std::pair{31, 17}, std::pair{50, 1});
  const std::vector<TokenLife> lives = lives_of(run, o);
  const TokenSpan rows = lifetime_rows(o, lives.size()), queries = lifetime_queries(run, o);
  const std::span<const TokenLife> shown =
      std::span(lives).subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
  const Image image = lifetimes_image(shown, queries, run.queries(), max_columns, max_rows, false);
  REQUIRE(image.columns == std::min(max_columns, queries.size()));
  REQUIRE(image.rows == std::min(max_rows, rows.size()));
  // Of equally many the first.
  const Colour order[] = {
      pale_life_colour(EvictionVerdict::wrong, false), pale_life_colour(EvictionVerdict::unknown, false),
      pale_life_colour(EvictionVerdict::right, false), state_colour(TokenState::kept, false),
      state_colour(TokenState::sink, false),           state_colour(TokenState::window, false),
      state_colour(TokenState::future, false)};
  const SpanCells columns(queries, max_columns), cells({0, rows.size()}, max_rows);
  int wrong = 0;
  for (int r = 0; r < image.rows; ++r) {
    for (int c = 0; c < image.columns; ++c) {
      std::array<int, std::size(order)> counts{};
      for (int i = cells.begin(r); i < cells.begin(r + 1); ++i) {
        const Colour now = drawn_at(run, shown[static_cast<std::size_t>(i)].t, columns.begin(c + 1) - 1, true)
                               .value_or(state_colour(TokenState::future, false));
        ++counts[static_cast<std::size_t>(std::find(std::begin(order), std::end(order), now) - std::begin(order))];
      }
      const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
      wrong += image.pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(image.columns) +
                            static_cast<std::size_t>(c)] != order[most];
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Rows become cells where there is less room, and the title has how many tokens a row is of") {
  const RunRecord run = random_run(3);
  const LifetimesOptions o{.layer = 1, .kv_head = 2};
  const std::vector<TokenLife> lives = lives_of(run, o);
  const auto title = [&](double height) {
    const Figure figure = lifetimes_picture(run, lives, o, sized(700, height));
    std::string all;
    for (const Primitive& item : figure.items)
      if (const auto* text = std::get_if<Text>(&item)) all += text->utf8 + "\n";
    return all;
  };
  const std::string summary = lifetimes_summary(run, o, lives);
  CHECK_THAT(title(800), Catch::Contains(summary) && !Catch::Contains("most common"));
  const Figure low = lifetimes_picture(run, lives, o, sized(700, 130));
  const Box box = low.panel("lives")->box;
  CHECK(only_image(low).rows == static_cast<int>(box.h));
  CHECK_THAT(title(130),
             Catch::Contains(summary + " · each row: most common state of " + format_number(180 / box.h) + " tokens"));
  const Figure narrow = lifetimes_picture(run, lives, o, sized(330, 130));
  bool has_note = false;
  for (const Primitive& item : narrow.items)
    if (const auto* text = std::get_if<Text>(&item)) has_note = has_note || text->utf8.starts_with("each row: most c");
  CHECK(has_note);
}

TEST_CASE("The lifetimes' data have a row for each token that is shown, in its order") {
  const RunRecord run = random_run(3, {.oracle = GENERATE(true, false)});
  const bool known = !run.future_mass.empty();
  LifetimesOptions o{.layer = 1, .kv_head = 2, .token = 10, .n_tokens = 100, .row = 5, .n_rows = 60};
  o.order = known ? LifeOrder::cost : LifeOrder::life;
  const BuiltFigure built = lifetimes_figure(run, o, {});
  const std::vector<TokenLife> lives = lives_of(run, o);
  REQUIRE(built.data.n_rows() == 60);
  for (std::size_t i = 0; i < 60; ++i) {
    const TokenLife& life = lives[i + 5];
    CHECK(column<std::int64_t>(built.data, "token")[i] == life.t);
    CHECK(column<std::int64_t>(built.data, "born")[i] == life.t);
    CHECK(column<std::int64_t>(built.data, "left_window")[i] == life.left_window);
    CHECK(column<std::int64_t>(built.data, "life")[i] == life.length());
    const double evict_at = column<double>(built.data, "evict_at")[i], cost = column<double>(built.data, "cost")[i];
    CHECK((life.evicted ? evict_at == life.gone : std::isnan(evict_at)));
    CHECK((known ? cost == life.cost : std::isnan(cost)));
    const std::string& verdict = column<std::string>(built.data, "verdict")[i];
    CHECK(verdict == (!life.evicted                            ? ""
                      : life.verdict == EvictionVerdict::wrong ? "wrong"
                      : life.verdict == EvictionVerdict::right ? "right"
                                                               : "none"));
    if (known && i > 0) CHECK(cost <= column<double>(built.data, "cost")[i - 1]);
  }
  CHECK_THAT(built.caption, Catch::Contains("Rows 5–64 of 100.") &&
                                Catch::Contains(known ? "highest cost first" : "longest life first"));
}

TEST_CASE("Lifetimes of what a run does not have are refused, and a recipe is read as it was written") {
  const RunRecord run = random_run(3), unjudged = random_run(3, {.oracle = false});
  for (const LifetimesOptions& o :
       {LifetimesOptions{.layer = 9}, LifetimesOptions{.kv_head = -1}, LifetimesOptions{.token = 5000},
        LifetimesOptions{.token = 5, .n_tokens = 10, .row = 10, .n_rows = 1}, LifetimesOptions{.row = -1, .n_rows = 2},
        LifetimesOptions{.first = 5000, .count = 9}, LifetimesOptions{.n_tokens = -3}})
    CHECK_THROWS_AS(lifetimes_figure(run, o, {}), Error);
  CHECK_THROWS_WITH(lifetimes_figure(unjudged, {.order = LifeOrder::cost}, {}), Catch::Contains("no oracle"));
  CHECK_THROWS_AS(lifetimes_figure(RunRecord{}, {}, {}), Error);
  FigureRecipe recipe;
  recipe.options = LifetimesOptions{.layer = 1,
                                    .kv_head = 2,
                                    .order = LifeOrder::life,
                                    .token = 3,
                                    .n_tokens = 90,
                                    .row = 2,
                                    .n_rows = 50,
                                    .first = 4,
                                    .count = 60,
                                    .preview = true};
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK((again.options == recipe.options));
  const BuiltFigure most =
      lifetimes_figure(run, {.token = 170, .n_tokens = INT32_MAX, .row = 1, .n_rows = INT32_MAX}, {});
  CHECK(most.data.n_rows() == 9);
}

TEST_CASE("A click on a row selects its token and the query, and the card has its life") {
  const RunRecord run = random_run(3);
  test::Stage<LifetimesView> s(run, {.layer = 1, .kv_head = 2});
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("lives.row.30", draw);
  CHECK(s.selection.token == 30);
  REQUIRE(s.selection.q.has_value());
  CHECK(*s.selection.q == Approx(90).margin(1));  // its middle
  s.draw();
  const auto expected = lives_of(run, {.layer = 1, .kv_head = 2});
  const auto evicted = std::ranges::find_if(expected, [](const TokenLife& life) {
    return life.verdict == EvictionVerdict::wrong && life.left_window < life.gone;
  });
  REQUIRE(evicted != expected.end());
  const ItemRect row = *s.window.items.find("lives.row." + std::to_string(evicted->t));
  ImGui::GetIO().MousePos = {row.centre_x(), row.centre_y()};
  s.draw();
  CHECK(s.selection.hovered_token == evicted->t);
  CHECK_THAT(s.text("lives.card"),
             Catch::Contains("token " + std::to_string(evicted->t)) &&
                 Catch::Contains("left the window at query " + std::to_string(evicted->left_window)) &&
                 Catch::Contains("evicted at query " + std::to_string(evicted->gone)) &&
                 Catch::Contains("effective score") &&  // by what
                 Catch::EndsWith("wrong: the oracle keeps it; cost " + format_number(evicted->cost)));
}

TEST_CASE("The rows are in the order that was chosen, and those of a marked range where one is") {
  const RunRecord run = random_run(3);
  test::Stage<LifetimesView> s(run, {.layer = 1, .kv_head = 2, .brush = {20, 60}});
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  const auto by_place = [&] {
    std::map<float, int> tokens;
    for (int t = 0; t < run.n_tokens(); ++t)
      if (const auto row = s.window.items.find("lives.row." + std::to_string(t))) tokens[row->y] = t;
    std::vector<int> all;
    for (const auto& [y, t] : tokens) all.push_back(t);
    return all;
  };
  for (const LifeOrder order : {LifeOrder::cost, LifeOrder::life, LifeOrder::position}) {
    s.window.click("lives.order." + std::to_string(static_cast<int>(order)), draw);
    s.draw();
    std::vector<int> expected;
    for (const TokenLife& life : lives_of(run, {.layer = 1, .kv_head = 2, .order = order, .token = 20, .n_tokens = 40}))
      expected.push_back(life.t);
    CHECK(by_place() == expected);
    CHECK((std::get<LifetimesOptions>(s.view.figure(s.context)->options).order == order));
  }
}

TEST_CASE("The wheel zooms rows and time at the mouse, with Ctrl the time alone, down to one token and back") {
  test::Stage<LifetimesView> s(random_run(3, {.prompt_len = 900, .n_new = 100}), {.layer = 1, .kv_head = 2});
  s.draw();
  const ItemRect rect = *s.window.items.find("lives.rows");
  const ImVec2 at{rect.x + rect.w / 4, rect.y + rect.h * 0.75f};
  const auto draw = [&] { s.draw(1); };
  const auto rows = [&] { return shown_life_rows(s.selection, 1000); };
  test::turn_wheel(at, 3, draw);
  CHECK(rows().size() == Approx(512).margin(2));
  CHECK(rows().begin + 0.75 * rows().size() == Approx(750).margin(3));
  CHECK(s.selection.view.size() == Approx(512).margin(2));
  CHECK(s.selection.view.begin + 0.25 * s.selection.view.size() == Approx(250).margin(3));
  CHECK(s.selection.rows.empty());  // the timeline's
  const TokenSpan before = rows();
  test::hold({.ctrl = true});
  test::turn_wheel(at, 1, draw);
  test::hold({});
  CHECK(rows() == before);
  CHECK(s.selection.view.size() == Approx(410).margin(2));
  for (int i = 0; i < 30; ++i) test::turn_wheel(at, 1, draw);
  CHECK(rows().size() == 1);
  s.draw();
  const auto one = std::get<LifetimesOptions>(s.view.figure(s.context)->options);
  CHECK((one.n_rows == 1 && one.row == rows().begin));
  CHECK(s.has("lives.row." + std::to_string(one.row)));
  for (int i = 0; i < 40; ++i) test::turn_wheel(at, -1, draw);
  CHECK((s.selection.lifetimes.rows.empty() && s.selection.view.empty()));
}

TEST_CASE("A drag of any button takes rows and time along and selects nothing, a double click shows all") {
  const int button = GENERATE(0, 1, 2);
  test::Stage<LifetimesView> s(random_run(3, {.prompt_len = 900, .n_new = 100}), {.view = {200, 400}});
  s.selection.lifetimes.rows = {100, 300};
  s.draw();
  const ItemRect rect = *s.window.items.find("lives.rows");
  ImGuiIO& io = ImGui::GetIO();
  const auto at = [&](float x, float y, bool down) {
    io.MousePos = {rect.x + rect.w * x, rect.y + rect.h * y};
    io.MouseDown[button] = down;
    s.draw(1);
  };
  at(0.5f, 0.5f, false), at(0.5f, 0.5f, true), at(0.6f, 0.4f, true), at(0.75f, 0.25f, true), at(0.75f, 0.25f, false);
  CHECK(s.selection.view.begin == Approx(150).margin(2));
  CHECK(s.selection.lifetimes.rows.begin == Approx(150).margin(2));
  CHECK((s.selection.view.size() == 200 && s.selection.lifetimes.rows.size() == 200));
  CHECK((s.selection.token == -1 && !s.selection.q));
  for (const bool down : {false, true, false, true, false}) {
    io.MouseDown[0] = down;
    s.draw(1);
  }
  CHECK((s.selection.lifetimes.rows.empty() && s.selection.view.empty()));
}

TEST_CASE("The rows of one marked range are not those of another, and another run begins with all") {
  Selection selection{.brush = {10, 60}};
  selection.lifetimes = {LifeOrder::life, {5, 9}, {10, 60}};
  CHECK(shown_life_rows(selection, 50) == TokenSpan{5, 9});
  selection.brush = {10, 70};
  CHECK(shown_life_rows(selection, 60) == TokenSpan{0, 60});
  selection.brush = {10, 60};
  const ViewLook look = look_of(selection);
  start_over(selection);
  CHECK(shown_life_rows(selection, 50) == TokenSpan{0, 50});
  CHECK(selection.lifetimes.order == LifeOrder::life);
  set_look(selection, look);
  selection.brush = {10, 60};
  CHECK(shown_life_rows(selection, 50) == TokenSpan{5, 9});
}

TEST_CASE("A note has what is missing for verdicts and costs, and rows by cost are by position then") {
  test::Stage<LifetimesView> s(random_run(3, {.oracle = false}));
  s.selection.lifetimes.order = LifeOrder::cost;
  s.draw();
  CHECK_THAT(s.text("lives.note"), Catch::StartsWith("No oracle in this run") && Catch::EndsWith("by position."));
  CHECK((std::get<LifetimesOptions>(s.view.figure(s.context)->options).order == LifeOrder::position));
  RunRecord running = random_run(3);
  running.status = RunStatus::running, running.n_queries = 90;
  test::Stage<LifetimesView> growing(running);
  growing.draw();
  CHECK_THAT(growing.text("lives.note"), Catch::StartsWith("Verdicts and costs appear when"));
  CHECK((growing.has("lives.row.89") && !growing.has("lives.row.90")));
  running.n_queries = 0;
  test::Stage<LifetimesView> none(running);
  none.draw();
  CHECK_THAT(none.text("lives.note"), Catch::StartsWith("The run has not read a token"));
  CHECK_FALSE(none.view.figure(none.context));
}

TEST_CASE("131,072 tokens are judged on a thread and drawn as cells") {
  RunRecord run = random_run(1, {.policy = "streaming:sinks=4,window=64",
                                 .n_layers = 1,
                                 .n_kv_heads = 1,
                                 .prompt_len = 131072,
                                 .n_new = 0,
                                 .scorer = false});
  test::Stage<LifetimesView> s(std::move(run));
  s.draw(1);
  CHECK_THAT(s.text("lives.note"), Catch::StartsWith("Judging"));
  for (int i = 0; i < 3000 && s.text("lives.note").starts_with("Judging"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  s.draw();
  REQUIRE(s.has("lives.rows"));
  CHECK(s.window.items.size() < 100);
  CHECK(s.window.n_vertices() < 20000);
  const int uploads = s.window.textures.n_updates();
  s.draw(10);
  CHECK(s.window.textures.n_updates() == uploads);
}
