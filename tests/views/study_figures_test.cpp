// Figures of studies and maps of several runs: each number of their tables against the input, counted here once more.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/support/study_literal.h"
#include "tests/views/figure_column.h"
#include "views/figure/column_spread_figure.h"
#include "views/figure/map_panels_figure.h"
#include "views/figure/plot.h"
#include "views/figure/study_bars_figure.h"
#include "views/figure/study_lines_figure.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using namespace kvscope::test;

namespace {

/// Two methods and a dense row over two items; b's points are out of order, and one was not measured.
StudyTable study() {
  return study_of(
      "method,item,density,nll[nats/token],nll_low,nll_high,on_front,is_knee,seed\n"
      "full,needle,1,2,2,2,0,0,0\n"
      "a,needle,0.5,2.2,2.1,2.3,1,1,0\n"
      "a,needle,0.2,2.6,2.5,2.7,0,0,0\n"
      "b,needle,0.4,2.4,,,1,0,0\n"
      "b,needle,0.1,2.5,,,1,0,0\n"
      "b,needle,0.3,,,,0,0,0\n"
      "full,passkey,1,1,,,0,0,0\n"
      "a,passkey,0.5,1.5,,,0,0,0\n"
      "a,passkey,0.5,1.7,,,0,0,1\n");
}

StudyLinesOptions nll_by_density() {
  StudyLinesOptions o;
  o.pick = {.x = "density", .y = {"nll"}, .series = "method", .where = {"item=needle"}};
  return o;
}

/// Points of all lines and marks of one colour.
const Polyline* line_of(const Figure& figure, Colour colour, double width) {
  for (const Primitive& item : figure.items) {
    const auto* line = std::get_if<Polyline>(&item);
    if (line && line->colour == colour && line->width == width && line->points.size() > 2) return line;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("lines: a row of the table for every measured point, by series and x, and one for the dense reference") {
  const BuiltFigure built = study_lines_figure(study(), nll_by_density(), {});
  CHECK(column<std::string>(built.data, "series") == std::vector<std::string>{"a", "a", "b", "b", "dense"});
  CHECK(column<double>(built.data, "value") == std::vector<double>{2.6, 2.2, 2.5, 2.4, 2});
  const auto& x = column<double>(built.data, "x");
  CHECK(std::vector(x.begin(), x.begin() + 4) == std::vector<double>{0.2, 0.5, 0.1, 0.4});
  CHECK(column<double>(built.data, "low")[1] == 2.1);
  CHECK(std::isnan(column<double>(built.data, "low")[2]));
  CHECK(column<std::int64_t>(built.data, "knee") == std::vector<std::int64_t>{0, 1, 0, 0, 0});
  CHECK_THAT(built.caption,
             Catch::Contains("NLL (nats/token) against Density.") && Catch::Contains("Whiskers: 95 % interval.") &&
                 Catch::Contains("Dashed: the dense cache") && Catch::Contains("Points with item=needle"));
}

TEST_CASE("lines: the front goes level to its next point, then down to it, over all series") {
  const Figure figure = study_lines_figure(study(), nll_by_density(), {}).figure;
  const FigureStyle style;
  const Polyline* front = line_of(figure, front_colour(style), kFrontWidth);
  REQUIRE(front != nullptr);
  // b 0.1 (2.5), b 0.4 (2.4), a 0.5 (2.2): three points and the two corners between them.
  REQUIRE(front->points.size() == 5);
  for (const int corner : {1, 3}) {
    CHECK(front->points[corner].y == front->points[corner - 1].y);
    CHECK(front->points[corner].x == front->points[corner + 1].x);
    CHECK(front->points[corner].y < front->points[corner + 1].y);  // lower NLL is further down the page
  }
  StudyLinesOptions none = nll_by_density();
  none.pick.front = "";
  CHECK(line_of(study_lines_figure(study(), none, {}).figure, front_colour(style), kFrontWidth) == nullptr);
}

TEST_CASE("lines: density is no fair axis where windows differ: its label says so, and there is no front") {
  const auto with_windows = [](const char* other) {
    return study_of(std::string("method,is_dense,density,cache_size,window,nll,on_front,is_knee\n"
                                "full,1,1,1,64,2,1,0\n"
                                "a,0,0.5,0.6,128,2.2,1,1\n"
                                "a,0,0.2,0.4,128,2.6,0,0\n"
                                "b,0,0.1,0.9,") +
                    other + ",2.5,1,0\n");
  };
  StudyLinesOptions by_density = nll_by_density(), by_size = by_density;
  by_density.pick.where = by_size.pick.where = {};
  by_size.pick.x = "cache_size";
  const auto front = [&](const StudyTable& table, const StudyLinesOptions& options) {
    return column<std::int64_t>(study_lines_figure(table, options, {}).data, "on_front");
  };
  const StudyTable differ = with_windows("256"), alike = with_windows("128");
  CHECK_THAT(study_lines_figure(differ, by_density, {}).caption,
             Catch::Contains("Density (without windows of 128 to 256 tokens)"));
  CHECK_THAT(study_lines_figure(alike, by_density, {}).caption, !Catch::Contains("without windows"));
  // Rows of a by density, then b, then dense. The study's own front is against cache size.
  CHECK(front(differ, by_size) == std::vector<std::int64_t>{0, 1, 1, 0});
  CHECK(front(differ, by_density) == std::vector<std::int64_t>{0, 0, 0, 0});
  CHECK(front(alike, by_density) == std::vector<std::int64_t>{0, 1, 1, 0});
}

TEST_CASE("lines: points alike in a column become their mean, with their range, in panels of their own") {
  StudyLinesOptions o = nll_by_density();
  o.pick.where.clear();
  o.pick.panel = "item";
  o.pick.combine = "density";
  const BuiltFigure built = study_lines_figure(study(), o, {});
  const auto& panel = column<std::string>(built.data, "panel");
  const auto& n = column<std::int64_t>(built.data, "n");
  const auto at = static_cast<std::size_t>(std::ranges::find(n, 2) - n.begin());
  REQUIRE(at < n.size());
  CHECK(panel[at] == "passkey");
  CHECK(column<double>(built.data, "value")[at] == Approx(1.6));
  CHECK(column<double>(built.data, "low")[at] == 1.5);
  CHECK(column<double>(built.data, "high")[at] == 1.7);
  CHECK(std::ranges::count(n, 2) == 1);
  CHECK(column<double>(built.data, "low")[1] == 2.1);  // a point of one row keeps its own interval
  CHECK(built.figure.panels.size() == 2);
  const auto& series = column<std::string>(built.data, "series");
  CHECK(std::ranges::count(series, "dense") == 2);
}

TEST_CASE("lines: conditions compare numbers as numbers and texts as texts") {
  const StudyTable table = study();
  const auto n = [&](std::vector<std::string> where) { return std::ranges::count(matching_rows(table, where), true); };
  CHECK(n({}) == 9);
  CHECK(n({"method=a"}) == 4);
  CHECK(n({"method=a|b"}) == 7);
  CHECK(n({"method!=a|b"}) == 2);
  CHECK(n({"density=0.50"}) == 3);
  CHECK(n({"density<0.3"}) == 2);
  CHECK(n({"density<=0.3", "item=needle"}) == 3);
  CHECK(n({"density>=0.5"}) == 5);
  CHECK(n({"density>0.5"}) == 2);
  CHECK_THROWS_WITH(n({"density"}), Catch::Contains("not a condition"));
  CHECK_THROWS_WITH(n({"densty=1"}), Catch::Contains("one of method, item, density"));
  CHECK_THROWS_WITH(n({"method<3"}), Catch::Contains("texts"));
  CHECK_THROWS_WITH(n({"density=much"}), Catch::Contains("a number"));
}

TEST_CASE("lines: what cannot be drawn is refused with the columns that there are") {
  StudyLinesOptions o = nll_by_density();
  o.pick.y = {"loss"};
  CHECK_THROWS_WITH(study_lines_figure(study(), o, {}), Catch::Contains("density, nll"));
  o = nll_by_density();
  o.pick.x = "item";
  CHECK_THROWS_WITH(study_lines_figure(study(), o, {}), Catch::Contains("a column of texts"));
  o = nll_by_density();
  o.pick.where = {"method=nobody"};
  CHECK_THROWS_WITH(study_lines_figure(study(), o, {}), Catch::Contains("no point has both"));
  o = nll_by_density();
  o.pick.series = "sort";
  CHECK_THROWS_WITH(study_lines_figure(study(), o, {}), Catch::Contains("\"sort\""));
}

TEST_CASE(
    "lines: a logarithmic axis puts equal ratios at equal distances, and has ticks at powers of two for lengths") {
  const PlotAxis axis = fit_plot_axis({1024, 2048, 8192}, true, false);
  CHECK(axis.share(2048) - axis.share(1024) == Approx((axis.share(8192) - axis.share(2048)) / 2));
  CHECK(axis.share(1024) > 0);
  CHECK(axis.share(8192) < 1);
  std::vector<std::string> labels;
  for (const PlotTick& tick : plot_ticks(axis, 8)) labels.push_back(tick.label);
  CHECK(labels == std::vector<std::string>{"1k", "2k", "4k", "8k"});
  CHECK(fit_plot_axis({3, std::nan(""), 5}, false, true).lo == 0);
  CHECK(fit_plot_axis({0, 0}, false, true).lo == 0);
  CHECK(fit_plot_axis({0, -1}, true, false).log == false);
}

TEST_CASE("lines: every series has a mark of its own, and colours that a grey print tells from paper") {
  std::set<PlotMark> marks;
  for (std::size_t i = 0; i < 6; ++i) {
    marks.insert(series_look(i, false).mark);
    CHECK(contrast(series_look(i, false).colour, {255, 255, 255}) > 1.9);
  }
  CHECK(marks.size() == 6);
}

TEST_CASE("bars: one for each category and series, standing on 0, with its interval") {
  StudyBarsOptions o;
  o.pick = {.x = "density", .y = {"nll"}, .series = "method", .where = {"item=needle"}};
  const BuiltFigure built = study_bars_figure(study(), o, {});
  CHECK(column<std::string>(built.data, "category") == std::vector<std::string>{"0.2", "0.5", "0.1", "0.4", ""});
  CHECK(column<double>(built.data, "value") == std::vector<double>{2.6, 2.2, 2.5, 2.4, 2});
  CHECK(column<double>(built.data, "high")[1] == 2.3);
  const Panel* panel = built.figure.panel("panel.0");
  REQUIRE(panel != nullptr);
  CHECK(panel->columns == 4);
  int standing = 0;
  for (const Primitive& item : built.figure.items) {
    const auto* bar = std::get_if<FillBox>(&item);
    standing += bar && std::abs(bar->box.bottom() - panel->box.bottom()) < 1e-9;
  }
  CHECK(standing == 4);
}

TEST_CASE("bars: a category that is a whole number has all its digits") {
  StudyBarsOptions o;
  o.pick = {.x = "context", .y = {"ms"}, .series = ""};
  const StudyTable table = study_of("context,ms\n8192,4\n32768,5\n100000,8\n131072.5,9\n");
  CHECK(column<std::string>(study_bars_figure(table, o, {}).data, "category") ==
        std::vector<std::string>{"8192", "32768", "100000", "1.311e+05"});
}

TEST_CASE("bars: rows of one category and series are one bar, their mean") {
  StudyBarsOptions o;
  o.pick = {.x = "method", .y = {"nll"}, .series = "", .where = {"item=passkey"}};
  const BuiltFigure built = study_bars_figure(study(), o, {});
  CHECK(column<double>(built.data, "value") == std::vector<double>{1.6, 1});
  CHECK(column<std::int64_t>(built.data, "n")[0] == 2);
}

TEST_CASE("a spread over columns has their quantiles at each x, by hand") {
  const StudyTable table = study_of(
      "step,open_0_0,open_0_1,open_1_0,open_1_1,open_2_0\n"
      "2,0.1,0.2,0.3,0.4,0.5\n1,1,1,1,1,0\n");
  const auto spread = column_spread(table, {});
  REQUIRE(spread.size() == 2);
  CHECK(spread[0].x == 1);
  CHECK(spread[0].median == 1);
  CHECK(spread[0].p10 == Approx(0.4));  // 0.4 of the way from 0 to 1
  CHECK(spread[1].median == Approx(0.3));
  CHECK(spread[1].q1 == Approx(0.2));
  CHECK(spread[1].p90 == Approx(0.46));
  const BuiltFigure built = column_spread_figure(table, {}, {});
  CHECK(built.data.n_rows() == 5 * 2 + 5 * 2);
  CHECK_THAT(built.caption, Catch::Contains("median of 5 columns"));
  CHECK_THROWS_WITH(column_spread(table, {.prefix = "shut_"}), Catch::Contains("shut_"));
}

TEST_CASE("map panels: A and B are means of their runs on one scale, and the third map is B - A") {
  std::vector<RunRecord> records;
  for (std::uint64_t seed = 0; seed < 5; ++seed) records.push_back(random_run(seed));
  std::vector<const RunRecord*> runs;
  for (const RunRecord& record : records) runs.push_back(&record);
  MapPanelsOptions o;  // of recall, which no two runs have alike
  o.metric = Metric::recall;
  o.runs_a = 2;
  const BuiltFigure built = map_panels_figure(runs, o, {});
  const auto& run = column<std::string>(built.data, "run");
  const auto &layer = column<std::int64_t>(built.data, "layer"), &head = column<std::int64_t>(built.data, "kv_head"),
             &n = column<std::int64_t>(built.data, "n");
  const auto& value = column<double>(built.data, "value");
  std::vector<HeadMap> maps;
  for (const RunRecord& record : records) maps.push_back(head_metric(record, Metric::recall, record.n_tokens() - 1));
  const auto mean = [&](int from, int to, int l, int h) {
    double sum = 0;
    for (int i = from; i < to; ++i) sum += maps[i].at(l, h);
    return sum / (to - from);
  };
  REQUIRE(value.size() == 3 * maps[0].values.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const int l = static_cast<int>(layer[i]), h = static_cast<int>(head[i]);
    const double a = mean(0, 2, l, h), b = mean(2, 5, l, h);
    CHECK(value[i] == Approx(run[i] == "A" ? a : run[i] == "B" ? b : b - a).margin(1e-6));
    CHECK(n[i] == (run[i] == "B" ? 3 : 2));
  }
  for (const char* id : {"map", "map.b", "map.difference"}) CHECK(built.figure.panel(id) != nullptr);
  o.runs_a = 5;
  CHECK_THROWS_WITH(map_panels_figure(runs, o, {}), Catch::Contains("at least one on each side"));
}

TEST_CASE("map panels: the spread over runs is their mean and the standard deviation of n - 1") {
  const RunRecord a = random_run(1), b = random_run(2), c = random_run(3);
  const RunRecord* runs[] = {&a, &b, &c};
  MapPanelsOptions o;
  o.metric = Metric::recall;
  o.panels = MapPanels::spread;
  const BuiltFigure built = map_panels_figure(runs, o, {});
  const auto& value = column<double>(built.data, "value");
  const std::size_t n = value.size() / 2;
  for (std::size_t i = 0; i < n; ++i) {
    double v[3], sum = 0, squares = 0;
    for (int r = 0; r < 3; ++r)
      v[r] = head_metric(*runs[r], Metric::recall, runs[r]->n_tokens() - 1).values[i], sum += v[r];
    for (double one : v) squares += (one - sum / 3) * (one - sum / 3);
    CHECK(value[i] == Approx(sum / 3).margin(1e-6));
    CHECK(value[n + i] == Approx(std::sqrt(squares / 2)).margin(1e-6));
  }
  CHECK_THROWS_WITH(map_panels_figure(std::span(runs, 1), o, {}),
                    Catch::Contains("figure: 1 run; expected at least two"));
}
