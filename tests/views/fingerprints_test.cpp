// What each head keeps: every step of every cell and every mark of the one head against plain loops, and the view's clicks.
#include <algorithm>
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
#include "views/figure/fingerprint_cells.h"
#include "views/figure/fingerprints_figure.h"
#include "views/figure/plot.h"
#include "views/figure/recipe.h"
#include "views/fingerprint_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

constexpr const char* kThreshold = "threshold:threshold=0.2,sinks=2,window=8";

int bin_of_pair(const RunRecord& run, FingerprintProfile profile, int q, int t) {
  if (profile == FingerprintProfile::kind) return static_cast<int>(kind_of(run.pieces[static_cast<std::size_t>(t)]));
  int bin = 0;
  if (profile == FingerprintProfile::age) {
    while (q - t >= 64 << bin) ++bin;
  } else {
    while (t >= (bin + 1) * run.n_tokens() / kPositionBins) ++bin;
  }
  return bin;
}

/// By bin, of each pair of a query and a token between sinks and window.
std::map<int, KeptPairs> pairs_of(const RunRecord& run, int layer, int head, FingerprintProfile profile) {
  std::map<int, KeptPairs> bins;
  const RetentionGeometry geometry = run.geometry(layer, head);
  for (int q = 0; q < run.queries(); ++q) {
    for (int t = geometry.n_sink; t <= q - geometry.window; ++t) {
      const std::int32_t at = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
      if (at != kUndecided) bins[bin_of_pair(run, profile, q, t)] += {visible(q, t, at) ? 1 : 0, 1};
    }
  }
  return bins;
}

/// Bin and share of each step that is drawn in a cell.
std::map<int, double> steps_in(const Figure& figure, const Box& spark, TokenSpan bins) {
  std::map<int, double> steps;
  for (const Primitive& item : figure.items) {
    const auto* area = std::get_if<Polygon>(&item);
    if (area == nullptr || !spark.inset(-0.01).contains(area->points.back())) continue;
    for (std::size_t i = 0; i < area->points.size() / 2; i += 2) {
      const Point from = area->points[i], to = area->points[i + 1];
      CHECK(to.x - from.x == Approx(spark.w / bins.size()));
      CHECK(from.y == to.y);
      const auto bin = static_cast<int>(std::lround((from.x - spark.x) / spark.w * bins.size())) + bins.begin;
      CHECK(steps.emplace(bin, (spark.bottom() - from.y) / spark.h).second);
    }
  }
  return steps;
}

bool has_circle(const Figure& figure, Point centre, Colour colour) {
  return std::ranges::any_of(figure.items, [&](const Primitive& item) {
    const auto* fill = std::get_if<FillBox>(&item);
    return fill != nullptr && fill->colour == colour && fill->radius > 0 &&
           std::hypot(fill->box.centre().x - centre.x, fill->box.centre().y - centre.y) < 0.01;
  });
}

}  // namespace

TEST_CASE("Each step in a cell is the share that plain loops over queries and tokens count") {
  const RunRecord run = random_run(3);
  const RunRecord* runs[] = {&run};
  FingerprintOptions options;
  options.profile = GENERATE(FingerprintProfile::age, FingerprintProfile::position, FingerprintProfile::kind);
  options.order = GENERATE(FingerprintOrder::layer, FingerprintOrder::cluster);
  FigureStyle style;
  std::tie(style.width, style.height) = GENERATE(std::pair{396.0, 0.0}, std::pair{800.0, 400.0});
  const BuiltFigure built = fingerprints_figure(runs, options, style);
  const Panel& panel = *built.figure.panel("grid");
  const RunFingerprints prints = run_fingerprints(run);
  const FingerprintGrid grid = fingerprint_grid(prints, options.order, panel.box);
  REQUIRE((grid.columns == panel.columns && grid.rows == panel.rows));
  if (options.order == FingerprintOrder::layer) REQUIRE((grid.columns == 3 && grid.rows == 2));
  const RunFingerprints* of_run[] = {&prints};
  const TokenSpan bins = fingerprint_bins(of_run, options.profile);
  int n = 0;
  HeadCluster before = HeadCluster::sink;
  for (std::size_t i = 0; i < grid.heads.size(); ++i) {
    if (grid.heads[i] < 0) continue;
    const HeadFingerprint& head = prints.heads[static_cast<std::size_t>(grid.heads[i])];
    ++n;
    if (options.order == FingerprintOrder::cluster) CHECK(std::exchange(before, cluster_of(head)) <= cluster_of(head));
    const Box cell = panel.cell(static_cast<int>(i) / grid.columns, static_cast<int>(i) % grid.columns);
    const auto steps = steps_in(built.figure, spark_box(cell), bins);
    const auto expected = pairs_of(run, head.layer, head.kv_head, options.profile);
    CAPTURE(head.layer, head.kv_head);
    REQUIRE(steps.size() == expected.size());
    for (const auto& [bin, pairs] : expected) {
      CAPTURE(bin);
      REQUIRE(steps.contains(bin));
      CHECK(steps.at(bin) == Approx(pairs.share()).margin(1e-9));
    }
  }
  CHECK(n == 6);
}

TEST_CASE("The one head has a mark for each bin of each run, at its share") {
  const RunRecord a = random_run(3), b = random_run(3, {.policy = kThreshold});
  const RunRecord* runs[] = {&a, &b};
  FingerprintOptions options{.layer = 1, .kv_head = 2};
  options.profile = GENERATE(FingerprintProfile::age, FingerprintProfile::kind);
  const BuiltFigure built = fingerprints_figure(runs, options, {.width = 900, .height = 500});
  const Panel* panel = built.figure.panel("head");
  REQUIRE(panel != nullptr);
  const int first = options.profile == FingerprintProfile::age ? pairs_of(b, 1, 2, options.profile).begin()->first : 0;
  const auto at = [&](int bin, double share) {
    return Point{panel->box.x + (bin - first + 0.5) * panel->box.w / panel->columns,
                 panel->box.bottom() - share * panel->box.h};
  };
  for (const auto& [bin, pairs] : pairs_of(a, 1, 2, options.profile)) {
    CAPTURE(bin);
    CHECK(has_circle(built.figure, at(bin, pairs.share()), series_look(0, false).colour));
  }
  int n = 0;  // B has squares
  for (const Primitive& item : built.figure.items) {
    const auto* fill = std::get_if<FillBox>(&item);
    n += fill != nullptr && fill->colour == series_look(1, false).colour &&
         panel->box.inset(-3).contains(fill->box.centre());
  }
  CHECK(n == static_cast<int>(pairs_of(b, 1, 2, options.profile).size()));
}

TEST_CASE("The fingerprints' data have every bin of A's heads and of the one head of the others") {
  const RunRecord a = random_run(3), b = random_run(4, {.policy = kThreshold});
  const RunRecord* runs[] = {&a, &b};
  FingerprintOptions options{.profile = FingerprintProfile::position, .layer = 1, .kv_head = 0};
  options.names = {"A", "run 7"}, options.previews = {1};
  const BuiltFigure built = fingerprints_figure(runs, options, {});
  const auto &layer = column<std::int64_t>(built.data, "layer"), &head = column<std::int64_t>(built.data, "kv_head"),
             &kept = column<std::int64_t>(built.data, "kept"), &pairs = column<std::int64_t>(built.data, "pairs");
  const auto &bin = column<std::string>(built.data, "bin"), &run = column<std::string>(built.data, "run");
  const auto& share = column<double>(built.data, "share");
  REQUIRE(built.data.n_rows() == 7u * (1 + kPositionBins));
  for (std::size_t i = 0; i < built.data.n_rows(); ++i) {
    const bool of_a = i < 6u * (1 + kPositionBins);
    CAPTURE(i, bin[i]);
    CHECK(run[i] == (of_a ? "A" : "run 7"));
    if (!of_a) REQUIRE((layer[i] == 1 && head[i] == 0));
    auto expected = pairs_of(of_a ? a : b, static_cast<int>(layer[i]), static_cast<int>(head[i]), options.profile);
    KeptPairs all;
    for (const auto& [number, part] : expected) all += part;
    const auto number = static_cast<int>(i % (1 + kPositionBins)) - 1;
    CHECK(bin[i] == (number < 0 ? "all" : bin_name(options.profile, number)));
    const KeptPairs of_bin = number < 0 ? all : expected[number];
    CHECK((kept[i] == of_bin.kept && pairs[i] == of_bin.pairs));
    CHECK((of_bin.pairs == 0 ? std::isnan(share[i]) : share[i] == of_bin.share()));
  }
  CHECK_THAT(built.caption, Catch::Contains("run 7: L1 H0 is") && Catch::Contains("keeps less than 2 %") &&
                                Catch::Contains("Preview"));
}

TEST_CASE("Fingerprints of no run, of runs of other shapes and of no head are refused") {
  const RunRecord a = random_run(3), wide = random_run(3, {.n_kv_heads = 4});
  const RunRecord* runs[] = {&a, &wide};
  CHECK_THROWS_WITH(fingerprints_figure(runs, {}, {}), Catch::Contains("different shapes"));
  CHECK_THROWS_AS(fingerprints_figure({}, {}, {}), Error);
  const std::vector<const RunRecord*> many(kMostFingerprintRuns + 1, &a);
  CHECK_THROWS_WITH(fingerprints_figure(many, {}, {}), Catch::Contains("1 to 8"));
  CHECK_THROWS_WITH(fingerprints_figure(std::span(runs, 1), {.layer = 2}, {}), Catch::Contains("0 to 1"));
  CHECK_THROWS_WITH(fingerprints_figure(std::span(runs, 1), {.kv_head = -1}, {}), Catch::Contains("0 to 2"));
  const RunRecord empty;
  const RunRecord* none[] = {&empty};
  CHECK_THROWS_AS(fingerprints_figure(none, {}, {}), Error);
}

TEST_CASE("A recipe of fingerprints that was written is read as it was") {
  FigureRecipe recipe;
  FingerprintOptions options{
      .profile = FingerprintProfile::kind, .order = FingerprintOrder::cluster, .layer = 3, .kv_head = 2};
  options.names = {"A", "run 7"}, options.previews = {1};
  recipe.options = options;
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK((again.options == recipe.options));
  CHECK(std::holds_alternative<FingerprintOptions>(preset_recipe("run-fingerprints").options));
}

TEST_CASE("A click on a cell selects its head, and the sentence has its cluster and why") {
  const RunRecord run = random_run(3);
  test::Stage<FingerprintView> s(run);
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("fingerprints.head.1.2", draw);
  CHECK((s.selection.layer == 1 && s.selection.kv_head == 2));
  s.draw();
  const RunFingerprints prints = run_fingerprints(run);
  const HeadFingerprint& head = prints.at(1, 2);
  CHECK(s.text("fingerprints.sentence") ==
        "L1 H2 is " + std::string(cluster_name(cluster_of(head))) + ": " + cluster_reason(head) + ".");
  const auto cell = *s.window.items.find("fingerprints.head.0.1");
  ImGui::GetIO().MousePos = {cell.centre_x(), cell.centre_y()};
  s.draw();
  CHECK_THAT(s.text("fingerprints.hover"), Catch::StartsWith("L0 H1: ") && Catch::Contains("\n64-127: "));
  s.window.click("fingerprints.profile.2", draw);
  s.window.click("fingerprints.order.1", draw);
  CHECK((s.selection.fingerprints == FingerprintLook{FingerprintProfile::kind, FingerprintOrder::cluster}));
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  const auto& options = std::get<FingerprintOptions>(figure->options);
  CHECK((options.profile == FingerprintProfile::kind && options.order == FingerprintOrder::cluster));
  CHECK((options.layer == 1 && options.kv_head == 2));
}

TEST_CASE("The one head is drawn of A, B and the ticked runs with A's layers and heads") {
  test::Stage<FingerprintView> s(random_run(3));
  const auto names = [&] { return std::get<FingerprintOptions>(s.view.figure(s.context)->options).names; };
  CHECK(names() == std::vector<std::string>{"A"});
  s.compare_with(random_run(3, {.policy = kThreshold}));
  CHECK(names() == std::vector<std::string>{"A", "B"});
  std::vector<ShownRun> set = {s.a, test::shown(random_run(4), "")};
  ListedRuns listed;
  s.context.set = &set, s.context.listed = &listed;
  listed.all = std::make_shared<std::vector<ListedRun>>(
      std::vector<ListedRun>{{1, s.a.run, 1, "a", ""}, {5, set[1].run, 1, "b", ""}});
  CHECK(names() == std::vector<std::string>{"A", "B", "run 5"});
  CHECK(s.view.figure(s.context)->runs.size() == 3);
  s.draw();
  CHECK(s.has("fingerprints.head.1.2"));
  s.compare_with(random_run(3, {.n_layers = 3}));
  CHECK(names() == std::vector<std::string>{"A", "run 5"});
}

TEST_CASE("A run without a choice to make has heads without a cluster, and a long one is counted on a thread") {
  test::Stage<FingerprintView> few(random_run(2, {.prompt_len = 5, .n_new = 2}));
  few.draw();
  CHECK_THAT(few.text("fingerprints.sentence"), Catch::Contains("is none: no token was between sinks and window"));
  test::Stage<FingerprintView> s(random_run(
      3, {.policy = kThreshold, .n_layers = 24, .n_kv_heads = 16, .prompt_len = 2900, .n_new = 100, .oracle = false}));
  s.draw(1);
  for (int i = 0; i < 2000 && !s.has("fingerprints.head.23.15"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  CHECK(s.has("fingerprints.head.23.15"));
}

TEST_CASE("Fingerprints of a run that grows are counted again with what it became") {
  RunRecord run = random_run(3);
  run.status = RunStatus::running, run.n_queries = 30;
  test::Stage<FingerprintView> s(run);
  s.draw();
  const std::string before = s.text("fingerprints.sentence");
  run.n_queries = run.n_tokens(), run.status = RunStatus::complete;
  s.a = test::shown(run);
  s.a.revision = 2;
  s.draw(6);
  CHECK(s.text("fingerprints.sentence") != before);
  CHECK_THAT(s.text("fingerprints.sentence"), Catch::EndsWith(cluster_reason(run_fingerprints(run).at(0, 0)) + "."));
}

TEST_CASE("The axis of ages begins with the first bin that a head has a pair in") {
  const RunRecord wide = random_run(3, {.policy = "streaming:sinks=4,window=70", .prompt_len = 300}),
                  near = random_run(3);
  const RunFingerprints of_wide = run_fingerprints(wide), of_near = run_fingerprints(near);
  const RunFingerprints *first[] = {&of_wide}, *both[] = {&of_wide, &of_near};
  CHECK(fingerprint_bins(first, FingerprintProfile::age) == TokenSpan{1, 4});
  CHECK(fingerprint_bins(both, FingerprintProfile::age) == TokenSpan{0, 4});
  CHECK(fingerprint_bins(first, FingerprintProfile::kind) == TokenSpan{0, kTokenKinds});
  const RunRecord* runs[] = {&wide};
  CHECK(fingerprints_figure(runs, {}, {.width = 900, .height = 500}).figure.panel("head")->columns == 3);
}
