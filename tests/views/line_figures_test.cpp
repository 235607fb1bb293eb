// The figures by layer and by position: their numbers against the run, what they refuse, and the views that draw them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/core/support/minus.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/comparison_view.h"
#include "views/figure/curves_figure.h"
#include "views/figure/metric_by_layer_figure.h"
#include "views/figure/recipe_fields.h"
#include "views/metric_by_layer_view.h"
#include "views/run_curves_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using namespace kvscope::test;

namespace {

template <typename T>
int count(const Figure& figure) {
  int n = 0;
  for (const Primitive& item : figure.items) n += std::holds_alternative<T>(item);
  return n;
}

int n_dots(const Figure& figure) {
  int n = 0;
  for (const Primitive& item : figure.items) {
    if (const auto* box = std::get_if<FillBox>(&item)) n += box->radius > 0 && box->box.w < 4;
  }
  return n;
}

}  // namespace

TEST_CASE("recipes name every quantity that a curve can have", "[views][figure]") {
  CHECK(std::ranges::equal(kQuantities, run_quantities(), {}, {}, &RunQuantityInfo::name));
}

TEST_CASE("by layer: a dot is the metric of its head, with the chance of its layer") {
  const RunRecord run = random_run(3, {.n_layers = 3, .n_kv_heads = 4});
  const RunRecord* runs[] = {&run};
  const BuiltFigure built = metric_by_layer_figure(runs, {.metric = Metric::recall, .q = 150}, {});
  const HeadMap recall = head_metric(run, Metric::recall, 150), chance = head_metric(run, Metric::chance, 150);
  const auto& value = column<double>(built.data, "value");
  const auto& of_layer = column<double>(built.data, "chance");
  REQUIRE(value.size() == 12);
  for (int layer = 0; layer < 3; ++layer) {
    double sum = 0;
    for (int head = 0; head < 4; ++head) sum += chance.at(layer, head);
    for (int head = 0; head < 4; ++head) {
      CHECK(value[static_cast<std::size_t>(layer) * 4 + head] == recall.at(layer, head));
      CHECK(of_layer[static_cast<std::size_t>(layer) * 4 + head] == Approx(sum / 4));
    }
  }
  CHECK(n_dots(built.figure) == 12);
  CHECK(count<StrokeBox>(built.figure) >= 1);
  CHECK_THAT(built.caption, Catch::Contains("one dot per KV head") && Catch::Contains("a random choice"));
  REQUIRE(built.figure.panel("by_layer") != nullptr);
  CHECK(built.figure.panel("by_layer")->columns == 3);
}

TEST_CASE("by layer: from thirty values on a box stands for them, over heads and runs alike") {
  std::vector<RunRecord> records;
  for (std::uint64_t seed = 0; seed < 10; ++seed) records.push_back(random_run(seed));
  std::vector<const RunRecord*> runs;
  for (const RunRecord& record : records) runs.push_back(&record);
  const MetricByLayerOptions options{.metric = Metric::density};
  const LayerDistributions all = layer_distributions(runs, options);
  REQUIRE(all.series.size() == 1);
  REQUIRE(all.series[0].layers[1].size() == 30);
  CHECK(all.series[0].layers[1][29].run == 9);
  CHECK(all.series[0].chance.empty());  // it is no choice of the oracle's
  const BuiltFigure built = metric_by_layer_figure(runs, options, {});
  CHECK_THAT(built.caption, Catch::Contains("quartiles") && Catch::Contains("And 9 more runs"));
  const auto dots = n_dots(built.figure);
  CHECK(dots < 30);  // outliers alone
}

TEST_CASE("by layer: A and B are judged by one oracle, each with its own mean") {
  const RunRecord a = random_run(1), b = random_run(1, {.policy = "streaming:sinks=4,window=60"});
  const RunRecord* runs[] = {&a, &b};
  MetricByLayerOptions options{.metric = Metric::recall, .with_b = true};
  const LayerDistributions both = layer_distributions(runs, options);
  REQUIRE(both.series.size() == 2);
  CHECK(both.series[0].name == "A");
  CHECK_THAT(metric_by_layer_figure(runs, options, {}).caption,
             Catch::Contains("A and B are judged by one shared oracle"));
  options.common_oracle = false;
  const LayerDistributions own = layer_distributions(runs, options);
  const HeadMap expected = head_metric(b, Metric::recall, b.n_tokens() - 1);
  for (int head = 0; head < 3; ++head) {
    const double shown = own.series[1].layers[1][static_cast<std::size_t>(head)].value, is = expected.at(1, head);
    CHECK((shown == is || (std::isnan(shown) && std::isnan(is))));
  }
}

TEST_CASE("by layer: quartiles by hand, whiskers within one and a half of their distance, and none of nothing") {
  const Quartiles q = quartiles({4, 1, 2, 3, 5, std::nan(""), 100});
  CHECK(q.n == 6);
  CHECK(q.median == 3.5);
  CHECK(q.q1 == 2.25);
  CHECK(q.q3 == 4.75);
  CHECK(q.low == 1);
  CHECK(q.high == 5);  // 100 is beyond 4.75 + 1.5 * 2.5
  CHECK(quartiles({7}).q1 == 7);
  CHECK(quartiles({std::nan("")}).n == 0);
  CHECK(std::isnan(quartiles({}).median));
}

TEST_CASE("by layer: what cannot be drawn is refused in a line") {
  const RunRecord run = random_run(1), other = random_run(1, {.n_layers = 3}), empty;
  const RunRecord *one[] = {&run}, *two[] = {&run, &other}, *none[] = {&empty};
  CHECK_THROWS_WITH(metric_by_layer_figure({}, {}, {}), Catch::Contains("no run"));
  CHECK_THROWS_WITH(metric_by_layer_figure(one, {.with_b = true}, {}), Catch::Contains("exactly two"));
  CHECK_THROWS_WITH(metric_by_layer_figure(two, {}, {}), Catch::Contains("different shapes"));
  CHECK_THROWS_AS(metric_by_layer_figure(none, {}, {}), Error);
}

TEST_CASE("curves: the numbers are the run's, and a line breaks where there is no value") {
  const RunRecord run = random_run(2);
  const RunRecord* runs[] = {&run};
  const BuiltFigure built = curves_figure(runs, {.quantity = RunQuantity::recall, .points = 40}, {});
  const RunCurve curve = run_curve(run, RunQuantity::recall, 40);
  const auto &mean = column<double>(built.data, "mean"), &low = column<double>(built.data, "low");
  REQUIRE(mean.size() == curve.points.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    CHECK((mean[i] == curve.points[i].mean || std::isnan(mean[i])));
    CHECK((low[i] == curve.points[i].low || std::isnan(low[i])));
  }
  CHECK(std::isnan(mean[0]));                // nothing was chosen at the first queries
  CHECK(count<Polygon>(built.figure) == 2);  // over the heads, and over the positions of a point
  CHECK_THAT(built.caption, Catch::Contains("each point the mean of 4 or 5 positions, their range as the darker band"));
}

TEST_CASE("curves: a difference is B - A, and what has none is refused") {
  const RunRecord a = random_run(4), b = random_run(4, {.policy = "streaming:sinks=4,window=60"});
  RunRecord elsewhere = b;
  elsewhere.ids[0] += 1;
  const RunRecord *both[] = {&a, &b}, *apart[] = {&a, &elsewhere}, *one[] = {&a};
  CurvesOptions options{.quantity = RunQuantity::cached, .points = 30, .compare = MapCompare::difference};
  const BuiltFigure built = curves_figure(both, options, {});
  CHECK(column<std::string>(built.data, "run")[0] == "B-A");
  CHECK(column<double>(built.data, "mean")[29] == run_curve_difference(a, b, RunQuantity::cached, 30).points[29].mean);
  CHECK_THROWS_WITH(curves_figure(apart, options, {}), Catch::Contains("no token in common"));
  CHECK_THROWS_WITH(curves_figure(one, options, {}), Catch::Contains("exactly two"));
  const BuiltFigure preview = curves_figure(one, {.preview = true}, {});
  CHECK_THAT(preview.caption, Catch::Contains("A preview is not measured, so it has no line"));
  for (const double v : column<double>(preview.data, "mean")) CHECK(std::isnan(v));
  CHECK_NOTHROW(curves_figure(one, {.quantity = RunQuantity::cached, .preview = true}, {}));
}

TEST_CASE("The view by layer follows the map's metric, and a click selects the layer and its nearest head") {
  Stage<MetricByLayerView> s(random_run(3, {.n_layers = 4, .n_kv_heads = 3}));
  s.selection.metric = Metric::recall;
  s.selection.q = 150;
  s.draw();
  CHECK_THAT(s.text("by_layer.note"), Catch::StartsWith("Oracle recall at query 150. Own oracle, k = "));
  std::string hovered;
  s.window.click("by_layer.layer.2", [&] {
    s.view.draw(s.context);
    hovered = s.window.items.text("by_layer.hover").value_or(hovered);
  });
  CHECK(s.selection.layer == 2);
  const HeadMap recall = head_metric(*s.a.run, Metric::recall, 150);
  // The middle of the axis, 0 to 1, was clicked.
  for (int head = 0; head < 3; ++head)
    CHECK(std::abs(recall.at(2, s.selection.kv_head) - 0.5f) <= std::abs(recall.at(2, head) - 0.5f) + 0.01f);
  CHECK_THAT(hovered, Catch::Contains("over 3 heads, chance 0."));
  s.selection.metric = Metric::density;
  s.draw(40);
  CHECK_THAT(s.text("by_layer.note"), Catch::StartsWith("Density at query 150. All heads have the same value: "));
}

TEST_CASE("The view by layer says that no oracle had to choose, rather than showing an empty plot") {
  Stage<MetricByLayerView> s(random_run(4, {.oracle = false}));
  s.selection.metric = Metric::recall;
  s.draw(4);
  CHECK_THAT(s.text("by_layer.note"), Catch::Contains("no choice was needed"));
}

TEST_CASE("The curves' quantity and comparison are chosen by buttons, and dragging in them scrubs") {
  Stage<RunCurvesView> s(random_run(2));
  s.compare_with(random_run(2, {.policy = "streaming:sinks=4,window=60"}));
  const auto draw = [&] { s.view.draw(s.context); };
  s.draw();
  s.window.click("curves.quantity.2", draw);
  s.window.click("curves.compare.2", draw);
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  const auto& options = std::get<CurvesOptions>(figure->options);
  CHECK(options.quantity == RunQuantity::density);
  CHECK(options.compare == MapCompare::difference);
  CHECK(figure->runs.size() == 2);
  s.window.click("curves.plot", draw);
  REQUIRE(s.selection.q.has_value());
  CHECK(*s.selection.q == Approx(s.a.run->n_tokens() / 2).margin(2));
}

TEST_CASE("The curves say what a run lacks: an oracle, a measured output error, a decode of a preview") {
  Stage<RunCurvesView> s(random_run(2, {.oracle = false}));
  const auto draw = [&] { s.view.draw(s.context); };
  s.draw();
  s.window.click("curves.quantity.3", draw);
  s.draw();
  CHECK_THAT(s.text("curves.refusal"), Catch::Contains("No oracle"));
  s.window.click("curves.quantity.4", draw);
  s.draw();
  CHECK_THAT(s.text("curves.refusal"), Catch::Contains("not measured in this run"));
  s.window.click("measure.next", draw);
  CHECK(s.command == "run.measure_output_error");
  CHECK_FALSE(s.view.figure(s.context));
  s.a.preview = true;
  s.window.click("curves.quantity.0", draw);
  s.draw();
  CHECK_THAT(s.text("curves.refusal"), Catch::Contains("A preview is not measured"));
}

// The curve and the dots of B were simply not there.
TEST_CASE("A preview under another window than the run's says in the curves and by layer why it has no recall") {
  const RunRecord run = random_run(2);
  const RunRecord preview = what_if(run, PolicySpec::parse("streaming:sinks=4,window=60"));
  const std::string why = "Recall with a window of 60 needs future attention that A recorded only for its own window";
  Stage<RunCurvesView> curves(run);
  curves.compare_with(preview);
  curves.b.preview = true;
  curves.draw();
  curves.window.click("curves.quantity.3", [&] { curves.view.draw(curves.context); });
  curves.draw();
  CHECK_THAT(curves.text("curves.no_b"), Catch::StartsWith(why));
  CHECK(curves.has("curves.plot"));  // of A
  CHECK(curves.view.figure(curves.context)->runs.size() == 1);
  curves.window.click("curves.quantity.2", [&] { curves.view.draw(curves.context); });
  curves.draw();
  CHECK_FALSE(curves.has("curves.no_b"));

  Stage<MetricByLayerView> by_layer(run, {.metric = Metric::recall});
  by_layer.compare_with(preview);
  by_layer.b.preview = true;
  by_layer.draw(4);
  CHECK_THAT(by_layer.text("by_layer.note"), Catch::Contains(". B: " + why));
}

TEST_CASE("The curves say why a B of another model has none, and where a difference has nothing to take") {
  Stage<RunCurvesView> s(random_run(2));
  s.compare_with(random_run(2, {.n_layers = 3}));
  s.draw();
  CHECK(s.text("curves.no_b") == "its model has different layers or KV heads.");
  CHECK(s.has("curves.plot"));
  CHECK(s.view.figure(s.context)->runs.size() == 1);
  RunRecord elsewhere = random_run(2);
  elsewhere.ids[0] += 1;
  s.compare_with(elsewhere);
  s.draw();
  s.window.click("curves.compare.2", [&] { s.view.draw(s.context); });
  s.draw();
  CHECK(s.text("curves.refusal") == "A and B diverge at the first token, so there is nothing to subtract.");
  CHECK_FALSE(s.has("curves.mean_of"));
}

TEST_CASE("A long run's curve is counted aside, and drawn when it is known") {
  Stage<RunCurvesView> s(random_run(2, {.n_layers = 12, .n_kv_heads = 8, .prompt_len = 2400, .n_new = 10}));
  REQUIRE(run_curve_cost(*s.a.run, RunQuantity::recall) > 4'000'000);
  const auto draw = [&] { s.view.draw(s.context); };
  s.draw();
  s.window.click("curves.quantity.3", draw);
  for (int i = 0; i < 2000 && !s.has("curves.plot"); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(s.has("curves.plot"));
}

TEST_CASE("The table of A and B says what there is to compare, and what was asked of both alike in one line") {
  Stage<ComparisonView> s(random_run(3));
  s.draw();
  CHECK_THAT(s.text("comparison.note"), Catch::Contains("No B yet"));
  s.window.click("empty.comparison_b", [&] { s.view.draw(s.context); });
  CHECK(s.command == "run.decode_again");
  s.compare_with(random_run(3, {.policy = "streaming:sinks=4,window=60"}));
  for (int i = 0; i < 2000 && !s.has("comparison.density"); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const ComparisonTable table = comparison_table(*s.a.run, *s.b.run, s.context.q());
  bool has_minus = false;
  for (const ComparisonRow& row : table.came_of) {
    std::string difference = row.difference.empty() ? "" : " | " + row.difference;
    if (row.difference.starts_with('-')) difference = " | −" + row.difference.substr(1), has_minus = true;
    CHECK(s.text("comparison." + row.name) == row.a + " | " + row.b + difference);
  }
  CHECK(has_minus);
  CHECK(s.text("comparison.policy") == "KVpop | StreamingLLM");
  CHECK(s.text("comparison.Budget") == "64 tokens | –");
  CHECK(s.text("comparison.Window") == "16 tokens | 60 tokens | +44");
  CHECK_FALSE(s.has("comparison.Sinks"));
  CHECK_THAT(s.text("comparison.alike"), Catch::Contains("Sinks 4 tokens"));
  s.compare_with(random_run(3, {.n_layers = 5}));
  s.draw();
  CHECK_THAT(s.text("comparison.note"), Catch::Contains("different models"));
}

TEST_CASE("Budgets of two kinds stand in one row of the table of A and B, both in tokens") {
  const auto budgets = [](const std::string& a, const std::string& b) {
    Stage<ComparisonView> s(random_run(3, {.policy = "kvpop:" + a + ",sinks=4,window=16"}));
    s.compare_with(random_run(3, {.policy = "kvpop:" + b + ",sinks=4,window=16"}));
    for (int i = 0; i < 2000 && !s.has("comparison.density"); ++i) {
      s.draw(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK_FALSE(s.has("comparison.Keep"));
    return s.text("comparison.Budget");
  };
  CHECK(budgets("keep=50%", "budget=100") == "50 % (90 tokens) | 100 tokens");  // of 180
  CHECK(budgets("budget=100", "compression=4") == "100 tokens | 4× (45 tokens)");
  CHECK(budgets("keep=50%", "keep=25%") == "50 % | 25 % | −25 points");
}

TEST_CASE("A negative value in the table of A and B has a minus, as its difference has") {
  Stage<ComparisonView> s(random_run(3, {.policy = "threshold:threshold=0.5,sinks=4,window=16"}));
  s.compare_with(random_run(3, {.policy = "threshold:threshold=-0.5,sinks=4,window=16"}));
  for (int i = 0; i < 2000 && !s.has("comparison.density"); ++i) {
    s.draw(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(s.text("comparison.Threshold") == "0.5 | −0.5 | −1");
}

TEST_CASE("The numbers of the table of A and B are whole in a narrow view: it is the names that are wrapped") {
  Stage<ComparisonView> s(random_run(3));
  s.compare_with(random_run(3, {.policy = "streaming:sinks=4,window=60"}));
  const float width = GENERATE(213.f, 165.f, 150.f);  // the first of three views in a row on a screen of 1600
  for (int i = 0; i < 2000 && !s.has("comparison.density"); ++i) {
    s.window.frame([&] {
      ImGui::BeginChild("narrow", {width, 1600});
      s.view.draw(s.context);
      ImGui::EndChild();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  int n = 0;
  for (const ComparisonRow& row : comparison_table(*s.a.run, *s.b.run, s.context.q()).came_of) {
    if (row.definition.empty()) continue;
    ItemRect line = *s.window.items.find("comparison." + row.name);
    const std::string& label = row.shown_name();
    const auto n_words = std::ranges::count(label, ' ') + 1;
    CAPTURE(width, row.name);
    CHECK(s.window.items.find("comparison." + row.name + ".label")->h <
          (static_cast<float>(n_words) + 0.5f) * ImGui::GetTextLineHeight());  // none is broken
    line.w = width;
    CHECK_THAT(s.window.written_in(line),
               Catch::Contains(with_minus(row.a) + with_minus(row.b) + with_minus(row.difference)));
    n += row.difference.empty() ? 0 : 1;
  }
  CHECK(n > 3);
}
