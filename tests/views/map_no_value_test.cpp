// A layer x head map, or a picture by layer, in which there is nothing to see says why.

#include <catch2/catch.hpp>

#include "engine/core/study/measure/output_error.h"
#include "tests/views/map_support.h"
#include "tests/views/view_stage.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/layer_head_map_view.h"
#include "views/metric_by_layer_view.h"
#include "views/widgets/no_value_note.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;

namespace {

RunRecord dense_in_prompt() {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=80,window=32");
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) run.evict_at.row(layer, head)[40] = 130;
  }
  return run;
}

bool inside(const ItemRect& in, const ItemRect& out) {
  return in.x >= out.x && in.y >= out.y && in.x + in.w <= out.x + out.w && in.y + in.h <= out.y + out.h;
}

/// From the first cell to the last.
ItemRect map_of(Stage<LayerHeadMapView>& s, const std::string& cells, const std::string& end) {
  const ItemRect first = *s.window.items.find(cells + ".0.0"), last = *s.window.items.find(cells + end);
  return {first.x, std::min(first.y, last.y), last.x + last.w - first.x, std::abs(last.y - first.y) + first.h};
}

}  // namespace

TEST_CASE("Why no head has a value is said as the cause that it has") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=64,sinks=4,window=16"});
  CHECK(why_no_value(run, Metric::density, 3) == "At query 3, all tokens are in the window of 16.");
  CHECK(why_no_value(run, Metric::evict_ratio, 3) == "At query 3, all tokens are sinks or in the window of 16.");
  CHECK(why_no_value(run, Metric::recall, 3) == "At query 3, all tokens are sinks or in the window of 16.");
  CHECK(why_no_value(run, Metric::recall, 30) == "Nothing was evicted up to query 30.");
  CHECK(why_no_value(run, Metric::read_share, 150) ==
        "No head in this run reads pages: each query reads every kept token.");
  CHECK(why_no_value(run, Metric::read_mass, 150) == "No head in this run reads pages.");
  CHECK(why_no_value(random_run(3, {.page_reads = true}), Metric::read_mass, 150) == "Not measured in this run.");
  CHECK(why_no_value(run, Metric::output_error, 150) == "Not measured in this run.");
  const RunRecord measured = random_run(3, {.output_error = true});
  CHECK(why_no_value(measured, Metric::output_error, 0) == output_error_note(measured, 0));
  CHECK(why_no_value(dense_in_prompt(), Metric::recall, 100) ==
        "Query 100 is in the dense prompt, where nothing is evicted.");
  CHECK_THAT(why_no_value(random_run(3, {.policy = "full"}), Metric::recall, 150), Contains("evicts nothing"));
  CHECK_THAT(why_no_value(random_run(3, {.policy = "streaming:sinks=4,window=16"}), Metric::recall, 150),
             Contains("keeps only sinks and window"));
  CHECK_THAT(why_no_value(random_run(3, {.oracle = false}), Metric::recall, 150), Contains("No oracle"));
}

TEST_CASE("A map without a value in any head says why inside itself, the definition is on the card under the mouse") {
  const float width = GENERATE(230.f, 700.f);
  Stage<LayerHeadMapView> s(uneven(), {}, {width, 400});
  s.selection.metric = Metric::read_share;
  s.draw(6);
  CHECK(s.text("map.no_value") == why_no_value(*s.a.run, Metric::read_share, 150));
  CHECK_THAT(s.text("map.no_value"), !Contains(std::string(metric_info(Metric::read_share).definition)));
  CHECK(inside(*s.window.items.find("map.no_value"), map_of(s, "map.cell", ".2.3")));
  const ItemRect cell = *s.window.items.find("map.cell.0.0");
  ImGui::GetIO().MousePos = {cell.centre_x(), cell.centre_y()};
  s.draw(4);
  CHECK(s.text("map.hover_definition") == metric_info(Metric::read_share).definition);
  ImGui::GetIO().MousePos = {-1, -1};
  s.selection.metric = Metric::density;
  s.draw(6);
  CHECK_FALSE(s.has("map.no_value"));
}

TEST_CASE("Of A and B beside each other the one that has no value says why on its own map") {
  Stage<LayerHeadMapView> s(random_run(3, {.page_reads = true}), {.q = 150, .metric = Metric::read_share});
  s.compare_with(random_run(3));
  s.draw(6);
  CHECK_FALSE(s.has("map.no_value"));
  CHECK_THAT(s.text("map.b.no_value"), Contains("No head in this run reads pages"));
  CHECK(inside(*s.window.items.find("map.b.no_value"), map_of(s, "map.b.cell", ".1.2")));
  s.selection.map.compare = MapCompare::difference;
  s.draw(30);
  CHECK_THAT(s.text("map.no_value"), Catch::StartsWith("B: No head in this run reads pages"));
}

TEST_CASE("A difference without a value speaks of the run that has none, and of both where both have none") {
  Stage<LayerHeadMapView> s(uneven(), {.q = 150, .metric = Metric::density});
  s.compare_with(random_run(3, {.policy = "threshold:threshold=0,sinks=4,window=400", .n_layers = 3, .n_kv_heads = 4}));
  s.selection.map.compare = MapCompare::difference;
  s.draw(30);
  CHECK(s.text("map.no_value") == "B: " + why_no_value(*s.b.run, Metric::density, 150));
  std::swap(s.a, s.b);
  s.draw(30);
  CHECK(s.text("map.no_value") == "A: " + why_no_value(*s.a.run, Metric::density, 150));
  s.selection.metric = Metric::read_share;
  s.draw(30);
  CHECK(s.text("map.no_value") == why_no_value(*s.a.run, Metric::read_share, 150));
}

TEST_CASE("A preview has no output error because nothing was decoded for it, whatever its run was asked to measure") {
  Stage<LayerHeadMapView> s(random_run(3, {.output_error = true}), {.q = 150, .metric = Metric::output_error});
  RunRecord preview = random_run(3);
  s.compare_with(preview);
  s.b.preview = true;
  s.draw(30);
  CHECK_THAT(s.text("map.b.no_value"), Contains("decode again to measure it"));
}

TEST_CASE("The card of a head of A | B names the run that has no value, that of a run alone does not") {
  Stage<LayerHeadMapView> s(random_run(3, {.page_reads = true}), {.q = 150, .metric = Metric::read_share});
  const auto why_at = [&](const char* cell) {
    s.draw(30);
    const ItemRect rect = *s.window.items.find(cell);
    ImGui::GetIO().MousePos = {rect.centre_x(), rect.centre_y()};
    s.draw(4);
    return s.text("map.hover_why");
  };
  s.compare_with(random_run(3));
  CHECK_THAT(why_at("map.b.cell.0.0"), Catch::StartsWith("B: No head in this run reads pages"));
  CHECK(why_at("map.cell.0.0") == "(not drawn)");
  s.selection.map.compare = MapCompare::none;
  s.selection.metric = Metric::read_mass;
  CHECK_THAT(why_at("map.cell.0.0"), Catch::StartsWith("Not measured in this run"));
}

TEST_CASE(
    "What was not measured has a button that has the next run measure it, in the map, by layer and in the curves") {
  Stage<LayerHeadMapView> map(random_run(3), {.q = 150, .metric = Metric::output_error});
  map.draw(30);
  CHECK(map.text("measure.why") == "Not measured in this run.");
  CHECK_FALSE(map.has("map.no_value"));  // it is said once
  map.window.click("measure.next", [&] { map.view.draw(map.context); });
  CHECK(map.command == "run.measure_output_error");
  map.compare_with(random_run(3, {.output_error = true}));
  map.draw(30);
  CHECK(map.text("measure.why") == "Not measured in A.");
  map.selection.metric = Metric::density;
  map.draw(30);
  CHECK_FALSE(map.has("measure.next"));

  Stage<LayerHeadMapView> reads(random_run(3, {.page_reads = true}), {.q = 150, .metric = Metric::read_mass});
  reads.draw(30);
  CHECK(reads.has("measure.next"));
  Stage<MetricByLayerView> layers(random_run(3), {.q = 150, .metric = Metric::output_error});
  layers.draw(30);
  CHECK(layers.has("measure.next"));
  layers.a.preview = true;
  layers.draw(30);
  CHECK_FALSE(layers.has("measure.next"));  // it is no run
}

TEST_CASE("A map too small for its note says in the line above why it has no value") {
  const std::string why = why_no_value(uneven(), Metric::read_share, 150);
  bool above = false, inside_map = false;
  for (float width = 100; width < 260; width += 20) {
    for (float height = 120; height < 260; height += 20) {
      CAPTURE(width, height);
      Stage<LayerHeadMapView> s(uneven(), {}, {width, height});
      s.selection.metric = Metric::read_share;
      s.draw(6);
      CHECK_FALSE((s.has("map.no_value") && s.has("map.why_none")));
      inside_map |= s.has("map.no_value");
      if (!s.has("map.why_none")) continue;
      above = true;
      CHECK(s.has("map.cell.0.0"));
      CHECK(s.text("map.why_none") == why);
      const ItemRect line = *s.window.items.find("map.why_none");
      ImGui::GetIO().MousePos = {line.centre_x(), line.centre_y()};
      s.draw(4);
      CHECK(s.text("hint") == why);
      s.selection.metric = Metric::density;
      s.draw(6);
      CHECK_FALSE(s.has("map.why_none"));
    }
  }
  CHECK(above);
  CHECK(inside_map);
}

// Equal heads were a line, which looked as if there were no heads.
TEST_CASE("By layer says where all heads have one value, and from where on A and B are of different texts") {
  RunRecord b = random_run(3, {.policy = "streaming:sinks=4,window=40"});
  for (std::size_t t = 100; t < b.ids.size(); ++t) b.ids[t] += 1;
  Stage<MetricByLayerView> s(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}), {.q = 90});
  s.compare_with(b);
  s.selection.map.compare = MapCompare::difference;
  s.draw(6);
  CHECK_THAT(s.text("by_layer.note"), Contains(". All heads have the same value: A ") && Contains(", B "));
  CHECK_THAT(s.text("by_layer.note"), !Contains("Texts differ"));
  s.selection.q = 150;
  s.draw(40);
  CHECK_THAT(s.text("by_layer.note"), Contains("Texts diverge at token 100: A and B are side by side"));
  CHECK(s.has("by_layer.layer.1"));

  Stage<MetricByLayerView> apart(uneven(), {.q = 150});
  apart.draw(6);
  CHECK(apart.text("by_layer.note") == "Density at query 150");
}
