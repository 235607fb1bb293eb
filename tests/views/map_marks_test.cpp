// The heads that are marked on the layer x head map: by a drag, as a text, and in the other views, which are about them.

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "engine/core/study/measure/run_curve.h"
#include "engine/core/support/error.h"
#include "tests/views/map_support.h"
#include "tests/views/view_stage.h"
#include "views/figure/curves_figure.h"
#include "views/figure/figure_builder.h"
#include "views/figure/metric_by_layer_figure.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/metric_by_layer_view.h"
#include "views/run_curves_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

TEST_CASE("a set of heads is read from the text that it writes, and no other text is one") {
  HeadSet heads{{0, 1}, {0, 2}, {0, 3}, {5, 0}, {0, 1}};
  CHECK(heads.size() == 4);
  CHECK(to_text(heads) == "0.1-3 5.0");
  CHECK(parse_heads(" 5.0  0.1-3 ", "f", "w") == heads);
  CHECK(to_text(HeadSet()).empty());
  CHECK(parse_heads("", "f", "w").empty());
  heads.remove(HeadSet{{0, 2}, {9, 9}});
  CHECK(to_text(heads) == "0.1 0.3 5.0");
  CHECK(to_text(heads.within(5, 3)) == "0.1");
  CHECK(local_heads_of(heads, 1, 4) == std::vector<std::uint8_t>{1, 0, 1, 0});
  CHECK(global_heads_of({1, 0, 1, 0}, 4) == HeadSet{{0, 1}, {0, 3}});
  for (const char* text : {"0", "0.", "a.1", "0.3-1", "0.1,2", "0.1-", "-1.0", "0.70000", "0.1x",
                           "0.0-65535 1.0-65535 2.0-65535 "
                           "3.0-65535 4.0-65535 5.0-65535 "
                           "6.0-65535 7.0-65535 8.0-65535 "
                           "9.0-65535 10.0-65535 11.0-65535 "
                           "12.0-65535 13.0-65535 14.0-65535 "
                           "15.0-65535 16.0-65535"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_heads(text, "recipe.json", "heads"),
                      Catch::Contains("recipe.json") && Catch::Contains("layer.head"));
  }
}

TEST_CASE("a drag over the map marks its heads, Shift adds, Ctrl and Alt take away, and a click alone selects") {
  const bool sorted = GENERATE(false, true);
  Stage<LayerHeadMapView> s(uneven());
  s.selection.map.sort = sorted;
  s.draw();
  // Cells go by their heads: sorted, the rectangle is of the heads that stand in it.
  const HeadMap map = head_metric(*s.a.run, Metric::density, s.context.q());
  const std::vector<int> order = head_order(map, sorted);
  const auto head = [&](int row, int place) { return KvHead{row, order[static_cast<std::size_t>(4 * row + place)]}; };
  const auto cell = [&](int row, int place) {
    const KvHead at = head(row, place);
    return "map.cell." + std::to_string(at.layer) + "." + std::to_string(at.kv_head);
  };
  drag(s, cell(0, 1), cell(1, 2));
  CHECK(s.selection.heads == HeadSet{head(0, 1), head(0, 2), head(1, 1), head(1, 2)});
  CHECK(s.text("map.marked") == "4 of 12 heads marked");
  hold({.shift = true});
  drag(s, cell(2, 3), cell(2, 3));
  hold({});
  CHECK(s.selection.heads.size() == 5);
  CHECK(s.selection.heads.contains(head(2, 3)));
  hold(GENERATE(Modifiers{.ctrl = true}, Modifiers{.alt = true}));
  drag(s, cell(0, 0), cell(0, 3));
  hold({});
  CHECK(s.selection.heads == HeadSet{head(1, 1), head(1, 2), head(2, 3)});
  const HeadSet before = s.selection.heads;
  drag(s, cell(2, 0), cell(2, 0));
  CHECK(s.selection.heads == before);
  CHECK(s.selection.layer == 2);
  CHECK(s.selection.kv_head == head(2, 0).kv_head);
  drag(s, cell(1, 3), cell(1, 3), 3000);  // past the lower edge: down to the last layer
  CHECK(s.selection.heads == HeadSet{head(1, 3), head(2, 3)});
  CHECK(std::get<LayerHeadMapOptions>(s.view.figure(s.context)->options).heads == s.selection.heads);
  s.window.click("map.unmark", [&] { s.view.draw(s.context); });
  CHECK(s.selection.heads.empty());
}

// A line of the marked heads came with the release, and the brush's end was another head's.
TEST_CASE("in little room a drag marks the heads under the pointer, to the last one") {
  Stage<LayerHeadMapView> s(uneven(), {}, {300, 300});
  s.draw();
  const float top = s.window.items.find("map.cell.0.0")->y;
  drag(s, "map.cell.0.1", "map.cell.2.2");
  CHECK(s.selection.heads.size() == 6);
  CHECK(s.window.items.find("map.cell.0.0")->y == top);
}

// The line that counts marked heads pushed the map down under the mouse: a drag to layer 10 marked up to layer 8.
TEST_CASE("The map stays where it is while heads are marked by a drag, in much room and in little") {
  const ImVec2 room = GENERATE(ImVec2{1600, 900}, ImVec2{500, 300});
  CAPTURE(room.y);
  Stage<LayerHeadMapView> s(uneven(1), {}, room);
  s.draw();
  const auto first = s.window.items.find("map.cell.0.0"), last = s.window.items.find("map.cell.2.3");
  ImGuiIO& io = ImGui::GetIO();
  REQUIRE((first && last));
  io.MousePos = {first->centre_x(), first->centre_y()};
  s.draw(2);
  io.MouseDown[0] = true;
  s.draw(2);
  io.MousePos = {last->centre_x(), last->centre_y()};
  s.draw(3);
  CHECK(s.selection.heads.size() == 12);
  CHECK(s.window.items.find("map.cell.2.3")->y == last->y);
  CHECK(s.window.items.find("map.cell.2.3")->h == last->h);
  io.MouseDown[0] = false;
  s.draw(3);
  CHECK(s.selection.heads.size() == 12);
  if (!s.has("map.marked")) s.window.click("map.more", [&] { s.view.draw(s.context); }), s.draw();
  CHECK(s.text("map.marked") == "12 of 12 heads marked");
}

TEST_CASE("By layer, Curves and the inspector are about the marked heads") {
  const RunRecord run = uneven();
  const Selection marked{.q = 150, .heads = {{0, 1}, {2, 0}, {2, 3}}};
  Stage<MetricByLayerView> by_layer(run, marked);
  by_layer.draw();
  CHECK(by_layer.text("by_layer.note") == "Density at query 150, 3 marked heads");
  const auto figure = by_layer.view.figure(by_layer.context);
  const RunRecord* runs[] = {&run};
  const BuiltFigure built = metric_by_layer_figure(runs, std::get<MetricByLayerOptions>(figure->options), {});
  CHECK(whole(built, "layer") == std::vector<std::int64_t>{0, 2, 2});
  CHECK(whole(built, "kv_head") == std::vector<std::int64_t>{1, 0, 3});

  Stage<RunCurvesView> curves(run, marked);
  const auto options = std::get<CurvesOptions>(curves.view.figure(curves.context)->options);
  CHECK(options.heads == marked.heads);

  Stage<InspectorView> inspector(run, marked);
  const HeadMap map = head_metric(run, Metric::density, 150);
  double all = 0;
  for (const float v : map.values) all += v;
  const double mean_marked = (static_cast<double>(map.at(0, 1)) + map.at(2, 0) + map.at(2, 3)) / 3;
  for (int i = 0; i < 400 && !inspector.has("inspector.marked Density"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    inspector.draw(1);
  }
  CHECK(inspector.text("inspector.marked Density") == format_number(mean_marked, 3));
  CHECK(inspector.text("inspector.marked Density.b") == format_number(all / 12, 3));
}

TEST_CASE("a curve of some heads is the mean of theirs, and of output error that of their layers") {
  const RunRecord run = random_run(7, {.n_layers = 3, .n_kv_heads = 2, .output_error = true});
  const std::vector<int> heads = {1, 4};
  const RunCurve some = run_curve(run, RunQuantity::cached, 5, heads);
  CHECK(some.n_parts == 2);
  for (const CurvePoint& point : some.points) {
    double sum = 0;
    for (const int head : heads) {
      for (int q = point.first; q <= point.last; ++q) {
        for (int t = 0; t <= q; ++t) {
          const std::int32_t e = run.evict_at.row(head / 2, head % 2)[static_cast<std::size_t>(t)];
          sum += e > q;
        }
      }
    }
    CHECK(point.mean == Approx(sum / 2 / (point.last - point.first + 1)));
  }
  const RunCurve of_layers = run_curve(run, RunQuantity::output_error, 3, std::vector<int>{0, 1, 5});
  CHECK(of_layers.n_parts == 2);
  CHECK(run_curve(run, RunQuantity::output_error, 3, {}).n_parts == 3);
  CHECK(run_curve(run, RunQuantity::nll, 3, heads).mean == run_curve(run, RunQuantity::nll, 3).mean);
  const RunRecord* runs[] = {&run};
  CHECK_THROWS_WITH(curves_figure(runs, {.quantity = RunQuantity::cached, .heads = {{9, 0}}}, {}),
                    Catch::Contains("heads of the run's model"));
}

TEST_CASE("Marked heads neither move the map nor take its room, and the way back to all is in reach at any height") {
  int beside = 0, in_list = 0;
  for (const float width : {200.f, 700.f}) {
    for (float height = 90; height < 420; height += 15) {
      Stage<LayerHeadMapView> s(uneven(), Selection{}, {width, height});
      s.draw();
      const auto before = s.window.items.find("map.cell.0.0");
      s.selection.heads = {{0, 1}, {0, 2}};
      s.draw();
      const auto after = s.window.items.find("map.cell.0.0");
      REQUIRE(before.has_value() == after.has_value());
      CHECK(s.has("too_little.map") == !after.has_value());
      if (before) CHECK(before->y == after->y);
      if (!s.has("map.unmark")) s.window.click("map.more", [&] { s.view.draw(s.context); }), s.draw(), ++in_list;
      ++beside;
      CHECK(s.text("map.marked") == "2 of 12 heads marked");
      s.window.click("map.unmark", [&] { s.view.draw(s.context); });
      CHECK(s.selection.heads.empty());
    }
  }
  CHECK(in_list > 0);
  CHECK(beside > in_list);
}

TEST_CASE("In little room what is said of the pair goes before the map does, and is the hint of A | B") {
  int without_line = 0;
  for (float height = 120; height < 300; height += 3) {
    Stage<LayerHeadMapView> s(uneven(), {.metric = Metric::recall}, {360, height});
    s.compare_with(uneven());
    s.selection.map.compare = MapCompare::side_by_side;
    s.draw(5);
    const bool has_map = s.has("map.cell.0.0"), has_line = s.has("map.common_oracle");
    if (has_line) CHECK(has_map);
    without_line += has_map && !has_line ? 1 : 0;
  }
  CHECK(without_line > 0);
}
