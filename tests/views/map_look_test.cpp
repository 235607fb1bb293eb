// How the layer x head map is looked at: its scale and thumbs, its order, its colours, and that what is exported is that.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "tests/views/map_support.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/metric_by_layer_figure.h"
#include "views/figure/recipe.h"
#include "views/head_board_view.h"
#include "views/layer_head_map_view.h"
#include "views/metric_by_layer_view.h"
#include "views/token_strip_view.h"
#include "views/widgets/counted_maps.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

LayerHeadMaps maps_of(std::vector<std::vector<float>> values, int n_layers) {
  LayerHeadMaps maps;
  for (auto& list : values) {
    const int heads = static_cast<int>(list.size()) / n_layers;
    maps.parts.push_back(
        {values.size() > 1 ? (maps.parts.empty() ? "A" : "B") : "", {n_layers, heads, std::move(list)}});
  }
  return maps;
}

/// A picture is made again when a few times its cost has passed.
template <typename Stage>
void settle(Stage& s) {
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    s.draw(1);
  }
}

}  // namespace

TEST_CASE("sorted, each layer's heads stand by value, equal ones by index, those without a value last") {
  const float none = std::nanf("");
  const HeadMap map{2, 4, {0.1f, 0.5f, none, 0.5f, none, 0.3f, 0.2f, 0.9f}};
  CHECK(head_order(map, true) == std::vector<int>{1, 3, 0, 2, 3, 1, 2, 0});
  CHECK(head_order(map, false) == std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("by layer, a value is divided by the largest of its layer, of both runs where they share a scale") {
  const LayerHeadMaps one = maps_of({{0.2f, -0.4f, 0, 0}}, 2);
  const auto drawn = drawn_values(one, {.by_layer = true});
  CHECK(drawn[0].values[0] == 0.5f);
  CHECK(drawn[0].values[1] == -1);
  CHECK(std::isnan(drawn[0].values[2]));  // a layer of zeros has nothing to compare
  CHECK(drawn_values(one, {})[0].values == one.parts[0].map.values);
  const LayerHeadMaps two = maps_of({{0.2f, 0.4f}, {0.8f, 0.1f}}, 1);
  LayerHeadMapOptions o{.compare = MapCompare::side_by_side, .by_layer = true};
  CHECK(drawn_values(two, o)[0].values == std::vector<float>{0.2f / 0.8f, 0.4f / 0.8f});
  o.lock = false;
  CHECK(drawn_values(two, o)[0].values == std::vector<float>{0.5f, 1});
  CHECK(drawn_values(two, o)[1].values == std::vector<float>{1, 0.1f / 0.8f});
}

TEST_CASE("a scale goes over the axis, over the values, or between the thumbs, and two of them are each their own") {
  const std::vector<HeadMap> maps = {{1, 2, {0.2f, 0.4f}}, {1, 2, {0.8f, 0.1f}}};
  LayerHeadMapOptions o{.compare = MapCompare::side_by_side};
  const auto is = [](const MapScale& s, double axis_lo, double axis_hi, double lo, double hi) {
    CHECK(s.axis_lo == Approx(axis_lo));
    CHECK(s.axis_hi == Approx(axis_hi));
    CHECK(s.lo == Approx(lo));
    CHECK(s.hi == Approx(hi));
  };
  is(map_scale(maps, 1, o), 0, 1, 0, 1);
  o.fit = true;
  is(map_scale(maps, 0, o), 0.1, 0.8, 0.1, 0.8);
  o.clip = {true, 0.3, 0.9};
  is(map_scale(maps, 0, o), 0.1, 0.8, 0.3, 0.8);
  o.lock = false;
  o.clip_b = {true, 0.2, 0.5};
  is(map_scale(maps, 0, o), 0.2, 0.4, 0.3, 0.4);
  is(map_scale(maps, 1, o), 0.1, 0.8, 0.2, 0.5);
  o.clip_b = {true, 2, 3};  // thumbs of another axis
  is(map_scale(maps, 1, o), 0.1, 0.8, 0.1, 0.8);
  const std::vector<HeadMap> difference = {{1, 3, {-0.3f, 0.1f, 0.2f}}};
  is(map_scale(difference, 0, {.compare = MapCompare::difference, .fit = true}), -0.3, 0.3, -0.3, 0.3);
  is(map_scale(difference, 0, {.compare = MapCompare::difference, .fit = true, .clip = {true, -0.05, 0.1}}), -0.3, 0.3,
     -0.1, 0.1);
}

TEST_CASE("each bin of the histogram has the heads whose value lies in it") {
  std::vector<HeadMap> maps = {{1, 4, {0, 0.999f, 1, std::nanf("")}}, {1, 2, {0.5f, 7}}};
  const std::vector<int> bins = value_histogram(maps, 0, 1);
  REQUIRE(bins.size() == kHistogramBins);
  std::map<int, int> expected = {{0, 1}, {kHistogramBins / 2, 1}, {kHistogramBins - 1, 3}};
  for (int i = 0; i < kHistogramBins; ++i) CHECK(bins[static_cast<std::size_t>(i)] == expected[i]);
}

TEST_CASE("the look of a map is in its recipe, its numbers and its caption") {
  const RunRecord run = uneven();
  const RunRecord* runs[] = {&run};
  LayerHeadMapOptions o{.metric = Metric::density, .sort = true, .by_layer = true, .clip = {true, 0.25, 0.5}};
  o.histogram = true;
  o.heads = {{0, 1}, {2, 3}};
  FigureRecipe recipe;
  recipe.options = o;
  CHECK(std::get<LayerHeadMapOptions>(parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "r").options) == o);
  const BuiltFigure built = layer_head_map_figure(runs, o, {});
  const HeadMap map = head_metric(run, Metric::density, run.n_tokens() - 1);
  const auto drawn = column(built, "drawn");
  const auto place = whole(built, "place"), marked = whole(built, "marked");
  REQUIRE(place.size() == 12);
  for (int l = 0; l < 3; ++l) {
    float largest = 0;
    for (int h = 0; h < 4; ++h) largest = std::max(largest, map.at(l, h));
    for (int h = 0; h < 4; ++h) {
      const auto i = static_cast<std::size_t>(4 * l + h);
      int before = 0;
      for (int other = 0; other < 4; ++other)
        before += map.at(l, other) > map.at(l, h) || (map.at(l, other) == map.at(l, h) && other < h);
      CHECK(place[i] == before);
      CHECK(drawn[i] == Approx(map.at(l, h) / largest));
      CHECK(column(built, "value")[i] == map.at(l, h));
      CHECK(marked[i] == ((l == 0 && h == 1) || (l == 2 && h == 3)));
    }
  }
  CHECK_THAT(built.caption, Catch::Contains("largest first") && Catch::Contains("divided by its largest") &&
                                Catch::Contains("Outlined: 2 of 12 heads") && Catch::Contains("from 0.25 to 0.5"));
  const BuiltFigure plain = layer_head_map_figure(runs, {}, {});
  CHECK(plain.data.columns.size() == 5);
  CHECK_FALSE(to_json({}).contains("histogram"));
}

TEST_CASE("on a board the global heads have their colour and the local ones are hatched") {
  const RunRecord run = uneven();
  const RunRecord* runs[] = {&run};
  LayerHeadMapOptions o{.values = false, .board = true};
  o.heads = {{1, 0}, {1, 1}, {1, 2}, {1, 3}};
  const BuiltFigure board = layer_head_map_figure(runs, o, {});
  const BuiltFigure plain = layer_head_map_figure(runs, {.values = false}, {});
  const auto cells = [](const BuiltFigure& built) {
    for (const Primitive& item : built.figure.items) {
      if (const auto* image = std::get_if<Image>(&item); image != nullptr && image->columns == 4) return image->pixels;
    }
    return std::vector<Colour>();
  };
  for (std::size_t i = 0; i < 12; ++i) CHECK((cells(board)[i] == cells(plain)[i]) == (i / 4 == 1));
  CHECK_THAT(board.caption, Catch::Contains("4 of 12 heads (global); hatched: local"));
}

TEST_CASE("the thumbs narrow the colours, a double click gives the axis back, and the figure is of what is on screen") {
  Stage<LayerHeadMapView> s(uneven());
  s.draw();
  CHECK(s.text("map.bar") == "0 to 1");
  drag(s, "map.bar.hi", "map.bar");  // to the middle
  REQUIRE(s.selection.map.clip.on);
  CHECK(s.selection.map.clip.hi == Approx(0.5).margin(0.02));
  CHECK(s.selection.map.clip.lo == 0);
  settle(s);
  CHECK(s.text("map.bar").starts_with("0 to 0."));
  CHECK(s.selection.heads.empty());  // the bar is not the map
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).clip == s.selection.map.clip);
  drag(s, "map.bar.lo", "map.bar", -2000);  // past the other thumb: it stops below
  CHECK(s.selection.map.clip.lo < s.selection.map.clip.hi);
  CHECK(s.selection.map.clip.lo == Approx(s.selection.map.clip.hi - 0.01));
  s.window.click("map.full", [&] { s.view.draw(s.context); });
  CHECK_FALSE(s.selection.map.clip.on);
  s.window.click("map.fit", [&] { s.view.draw(s.context); });
  settle(s);
  const HeadMap map = head_metric(*s.a.run, Metric::density, s.context.q());
  const auto [lo, hi] = std::ranges::minmax(map.values);
  CHECK(s.text("map.bar") == format_number(lo) + " to " + format_number(hi));
  choose_metric(s.selection, Metric::recall);
  CHECK(s.selection.metric_chosen);
}

TEST_CASE("a metric that is chosen leaves the thumbs of the one before behind") {
  Selection selection;
  selection.map.clip = {true, 0.2, 0.3};
  choose_metric(selection, Metric::density);
  CHECK(selection.map.clip.on);
  choose_metric(selection, Metric::recall);
  CHECK_FALSE(selection.map.clip.on);
}

// All of B was one colour: output errors of 0.01 to 0.15 on a scale of 0 to 1.
TEST_CASE("a metric without a natural maximum opens on a scale that fits its values, and a share on 0 to 1 again") {
  Selection selection;
  choose_metric(selection, Metric::recall);
  CHECK_FALSE(selection.map.fit);
  for (const Metric metric : {Metric::output_error, Metric::regret, Metric::above_chance}) {
    choose_metric(selection, metric);
    CHECK(selection.map.fit);
    choose_metric(selection, Metric::density);
    CHECK_FALSE(selection.map.fit);
  }
  selection.map.fit = true;  // by a person, of a share
  choose_metric(selection, Metric::recall);
  CHECK(selection.map.fit);
  choose_metric(selection, Metric::output_error);
  selection.map.fit = false;  // by a person too
  choose_metric(selection, Metric::output_error);
  CHECK_FALSE(selection.map.fit);
}

TEST_CASE("A and B without the lock have a bar each, of their own values") {
  Stage<LayerHeadMapView> s(uneven());
  s.compare_with(
      random_run(3, {.policy = "threshold:threshold=0.5,sinks=4,window=16", .n_layers = 3, .n_kv_heads = 4}));
  settle(s);
  CHECK(s.has("map.bar"));
  CHECK_FALSE(s.has("map.bar.b"));
  s.window.click("map.lock", [&] { s.view.draw(s.context); });
  settle(s);
  REQUIRE(s.has("map.bar.b"));
  const auto range = [&](const ShownRun& shown) {
    const HeadMap map = head_metric(*shown.run, Metric::density, s.context.q());
    const auto [lo, hi] = std::ranges::minmax(map.values);
    return format_number(lo) + " to " + format_number(hi);
  };
  CHECK(s.text("map.bar") == range(s.a));
  CHECK(s.text("map.bar.b") == range(s.b));
  drag(s, "map.bar.b.hi", "map.bar.b");
  CHECK(s.selection.map.clip_b.on);
  CHECK_FALSE(s.selection.map.clip.on);
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).clip_b == s.selection.map.clip_b);
}

TEST_CASE("of a set the map is its median, mean or spread, By layer its distribution, and B is in neither") {
  Stage<LayerHeadMapView> s(uneven(1));
  s.compare_with(uneven(9));
  std::vector<ShownRun> set = {s.a, shown(uneven(2)), shown(uneven(4)), shown(uneven(5))};
  s.context.set = &set;
  s.draw();
  CHECK(s.text("map.set") == "median of 4 runs, each at its last query");
  CHECK((!s.has("map.compare.0") && !s.has("map.b.cell.0.0")));
  s.window.click("map.aggregate.2", [&] { s.view.draw(s.context); });
  s.selection.q = 90;
  const ViewFigure figure = s.view.figure(s.context).value();
  std::vector<const RunRecord*> runs;
  for (const ShownRun& run : set) runs.push_back(run.run.get());
  REQUIRE(pointers_to(figure.runs) == runs);
  const auto built = layer_head_map_figure(runs, std::get<LayerHeadMapOptions>(figure.options), {});
  CHECK_THAT(built.caption, Catch::Contains("at query position 90, interquartile range of 4 runs"));
  for (int i = 0; i < 12; ++i) {
    std::vector<double> values;
    for (const RunRecord* run : runs) values.push_back(head_metric(*run, Metric::density, 90).at(i / 4, i % 4));
    const Quartiles q = quartiles(values);
    CHECK(column(built, "value")[static_cast<std::size_t>(i)] == Approx(q.q3 - q.q1).margin(1e-6));
  }
  CHECK(std::isnan(aggregate_metric({runs.data(), 1}, Metric::density, 90, Aggregate::iqr).values[0]));
  MetricByLayerView by_layer(s.window.services);
  s.window.frame([&] { by_layer.draw(s.context); });
  CHECK(s.text("by_layer.note") == "Density at query 90, over 4 runs");
  CHECK(by_layer.figure(s.context)->runs == figure.runs);
  set.pop_back();
  for (int i = 0; i < 60; ++i) s.window.frame([&] { by_layer.draw(s.context); });
  CHECK(s.text("by_layer.note") == "Density at query 90, over 3 runs");
}

TEST_CASE("a metric that tells no head from another gives way to the first that does") {
  const RunRecord fixed = random_run(3), open = uneven();
  CHECK_FALSE(varies(head_metric(fixed, Metric::density, fixed.n_tokens() - 1)));
  const Metric taken = varying_metric(fixed, Metric::density);
  CHECK(taken == Metric::recall);
  CHECK(varies(head_metric(fixed, taken, fixed.n_tokens() - 1)));
  CHECK(varying_metric(open, Metric::density) == Metric::density);
  CHECK(varying_metric(open, Metric::mass_recall) == Metric::mass_recall);
  const RunRecord dense = random_run(3, {.policy = "full", .oracle = false});
  CHECK(varying_metric(dense, Metric::density) == Metric::density);  // none does
}

TEST_CASE("The maps on screen and the figures of them have the colours that the window is set to") {
  Stage<LayerHeadMapView> map(uneven());
  map.draw(4);
  const std::int64_t uploaded = map.window.textures.n_pixels();
  map.draw(4);
  CHECK(map.window.textures.n_pixels() == uploaded);
  map.window.theme.maps = Colormap::cividis;
  map.draw(4);
  CHECK(map.window.textures.n_pixels() > uploaded);  // the picture is made again
  CHECK(std::get<LayerHeadMapOptions>(map.view.figure(map.context)->options).colormap == Colormap::cividis);
  Stage<HeadBoardView> board(uneven());
  board.window.theme.maps = Colormap::cividis;
  CHECK(std::get<LayerHeadMapOptions>(board.view.figure(board.context)->options).colormap == Colormap::cividis);

  Stage<TokenStripView> strip(random_run(3), {.q = 150, .colour = ColourMode::kept_heads});
  strip.window.theme.maps = Colormap::cividis;
  strip.draw();
  CHECK(std::get<TokenStripOptions>(strip.view.figure(strip.context)->options).colormap == Colormap::cividis);
  std::set<std::uint32_t> scale, painted;
  for (int k = 0; k <= 3; ++k) scale.insert(to_imgui(sample(Colormap::cividis, k / 3.0)));
  for (int t = 4; t <= 150 - 16; ++t) {
    CAPTURE(t);
    painted = strip.window.colours_in("strip.token." + std::to_string(t));
    CHECK(std::ranges::any_of(painted, [&](std::uint32_t colour) { return scale.contains(colour); }));
  }
  strip.selection.layers = true;
  strip.draw();
  const auto looked_at = strip.view.layer_picture().n_looked_at();
  strip.window.theme.maps = Colormap::viridis;
  strip.draw();
  CHECK(strip.view.layer_picture().n_looked_at() > looked_at);  // the picture is made again
  CHECK(std::get<TokenStripOptions>(strip.view.figure(strip.context)->options).colormap == Colormap::viridis);
}

TEST_CASE("By layer the card has the share of the layer's largest that the colour shows behind the value") {
  Stage<LayerHeadMapView> s(uneven(), {.q = 150});
  s.selection.map.by_layer = true;
  s.draw(6);
  const HeadMap values = aggregate_metric(std::vector<const RunRecord*>{s.a.run.get()}, Metric::density, 150, {});
  float largest = 0;
  for (int head = 0; head < values.n_kv_heads; ++head) largest = std::max(largest, values.at(1, head));
  const auto said = [&](const char* cell) {
    const ItemRect rect = *s.window.items.find(cell);
    ImGui::GetIO().MousePos = {rect.centre_x(), rect.centre_y()};
    s.draw(4);
    return s.text("map.hover");
  };
  for (int head = 0; head < values.n_kv_heads; ++head) {
    const std::string cell = "map.cell.1." + std::to_string(head), value = format_number(values.at(1, head), 4);
    CHECK(said(cell.c_str()) ==
          "Density " + value + ", " + format_number(values.at(1, head) / largest, 2) + " of the layer's largest");
  }
  s.selection.map.by_layer = false;
  s.draw(30);
  CHECK_THAT(said("map.cell.1.0"), !Catch::Contains("largest"));
  s.selection.map.by_layer = true;
  s.compare_with(uneven(4));
  s.draw(30);
  CHECK_THAT(said("map.b.cell.1.0"),
             Catch::Contains(" in A, ") && Catch::Contains(" of the layer's largest; ") && Catch::Contains(" in B, "));
}

TEST_CASE("The frame of the selected head goes around a cell that is low, and its colour stays in sight") {
  Stage<LayerHeadMapView> low(random_run(3, {.n_layers = 60}), {.layer = 20}, {600, 400});
  low.draw(6);
  const ItemRect cell = *low.window.items.find("map.cell.20.0"), frame = *low.window.items.find("selected.head");
  REQUIRE(cell.h < 8);
  CHECK(frame.y <= cell.y - 2);
  CHECK(frame.y + frame.h >= cell.y + cell.h + 2);
  Stage<LayerHeadMapView> high(random_run(3), {.layer = 1}, {600, 400});
  high.draw(6);
  CHECK(high.window.items.find("selected.head")->y == high.window.items.find("map.cell.1.0")->y);
}
