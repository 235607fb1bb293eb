// Runs as small multiples: who is beside whom, every cell against plain loops, and the view's clicks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/recipe.h"
#include "views/figure/run_grid_figure.h"
#include "views/run_grid_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

constexpr const char* kPolicies[] = {"streaming:sinks=4,window=16", "streaming:sinks=4,window=60",
                                     "kvpop:budget=20,sinks=4,window=16", "kvpop:budget=64,sinks=4,window=16", "full"};

std::vector<RunRecord> runs_of_one_text() {
  std::vector<RunRecord> runs;
  for (const char* policy : kPolicies) runs.push_back(random_run(3, {.policy = policy}));
  return runs;
}

std::vector<const RunRecord*> all_of(const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> out;
  for (const RunRecord& run : runs) out.push_back(&run);
  return out;
}

}  // namespace

TEST_CASE("A column of the grid has one run of a method, and sizes that differ by an eighth at most") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<GridRun> runs;
    const int n = static_cast<int>(random() % 12) + 1;
    for (int i = 0; i < n; ++i) {
      const double size = random() % 9 == 0 ? NAN : static_cast<double>(random() % 1000 + 1) / 1000;
      runs.push_back({std::string(1, static_cast<char>('a' + random() % 4)), size});
    }
    const RunGrid grid = run_grid(runs);
    CAPTURE(trial);
    std::set<int> seen;
    double before = 0;
    for (std::size_t c = 0; c < grid.columns.size(); ++c) {
      double lo = INFINITY, hi = 0;
      for (std::size_t r = 0; r < grid.methods.size(); ++r) {
        const int run = grid.at(r, c);
        if (run < 0) continue;
        CHECK(runs[static_cast<std::size_t>(run)].method == grid.methods[r]);
        CHECK(seen.insert(run).second);
        const double size = runs[static_cast<std::size_t>(run)].cache_size;
        if (!std::isnan(size)) lo = std::min(lo, size), hi = std::max(hi, size);
      }
      if (lo > hi) {
        CHECK(std::isnan(grid.columns[c].lo));
        continue;
      }
      CHECK((grid.columns[c].lo == lo && grid.columns[c].hi == hi));
      CHECK(lo >= 0.87 * hi);
      CHECK(lo >= before);
      before = hi;
    }
    CHECK(seen.size() == runs.size());
  }
}

TEST_CASE("Each cell of the grid is the metric of its head, in the data and as its colour") {
  const std::vector<RunRecord> records = runs_of_one_text();
  const auto runs = all_of(records);
  RunGridOptions options;
  options.q = GENERATE(-1, 90);
  options.metric = GENERATE(Metric::density, Metric::recall);
  const BuiltFigure built = run_grid_figure(runs, options, {.width = 700, .height = GENERATE(0.0, 420.0)});
  const auto& run = column<std::string>(built.data, "run");
  const auto &layer = column<std::int64_t>(built.data, "layer"), &head = column<std::int64_t>(built.data, "kv_head");
  const auto &value = column<double>(built.data, "value"), &size = column<double>(built.data, "cache_size");
  const auto& nll = column<double>(built.data, "nll_answer");
  REQUIRE(built.data.n_rows() == records.size() * 6);
  for (std::size_t row = 0; row < built.data.n_rows(); ++row) {
    const RunRecord& of = records[row / 6];
    CHECK(run[row] == "run " + std::to_string(row / 6 + 1));
    const int q = options.q < 0 ? of.n_tokens() - 1 : options.q;
    const float expected =
        head_metric(of, options.metric, q).at(static_cast<int>(layer[row]), static_cast<int>(head[row]));
    CHECK((std::isnan(expected) ? std::isnan(value[row]) : value[row] == static_cast<double>(expected)));
    CHECK(size[row] == Approx(mean_cache_size(of)));
    const double measured = measure_run(of)[RunMeasure::nll_answer];
    CHECK((std::isnan(measured) ? std::isnan(nll[row]) : nll[row] == measured));
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Panel* panel = built.figure.panel("run." + std::to_string(i));
    REQUIRE(panel != nullptr);
    CHECK((panel->rows == 2 && panel->columns == 3));
    CHECK(panel->box.right() <= 700);
  }
}

TEST_CASE("Each token of the grid has the number of heads that plain loops count") {
  const std::vector<RunRecord> records = runs_of_one_text();
  const auto runs = all_of(records);
  const BuiltFigure built =
      run_grid_figure(runs, {.cells = RunGridCells::tokens, .q = 100}, {.width = 1600, .height = 500});
  const auto &layer = column<std::int64_t>(built.data, "layer"),
             &first = column<std::int64_t>(built.data, "first_token"),
             &last = column<std::int64_t>(built.data, "last_token");
  const auto& heads = column<double>(built.data, "kv_heads");
  const std::size_t of_run = built.data.n_rows() / records.size();
  int counted = 0;
  for (std::size_t row = 0; row < built.data.n_rows(); ++row) {
    const RunRecord& run = records[row / of_run];
    if (first[row] != last[row] || std::isnan(heads[row])) continue;
    int kept = 0;
    for (int head = 0; head < run.model.n_kv_heads; ++head)
      kept += visible(100, static_cast<std::int32_t>(first[row]),
                      run.evict_at.row(static_cast<int>(layer[row]), head)[static_cast<std::size_t>(first[row])]);
    CHECK(heads[row] == kept);
    ++counted;
  }
  CHECK(counted > 100);
}

TEST_CASE("Runs of other prompts or models, none and too many are refused by what they are") {
  const RunRecord a = random_run(3), other = random_run(4), wide = random_run(3, {.n_kv_heads = 4});
  const auto refused = [&](const RunRecord& b) {
    const RunRecord* runs[] = {&a, &b};
    CHECK_THROWS_WITH(run_grid_figure(runs, {}, {}), Catch::Contains("runs of one prompt and one model"));
  };
  refused(other);
  refused(wide);
  CHECK(why_not_in_grid(other, a) == "another prompt");
  CHECK(why_not_in_grid(wide, a) == "another model");
  CHECK(why_not_in_grid(RunRecord{}, a) == "no tokens yet");
  CHECK_THROWS_AS(run_grid_figure(std::span<const RunRecord* const>(), {}, {}), Error);
  const std::vector<const RunRecord*> many(kMostGridRuns + 1, &a);
  CHECK_THROWS_WITH(run_grid_figure(many, {}, {}), Catch::Contains("1 to 32"));
}

TEST_CASE("A recipe of the grid that was written is read as it was") {
  FigureRecipe recipe;
  RunGridOptions options{.cells = RunGridCells::tokens, .metric = Metric::recall, .q = 5};
  options.measure = RunMeasure::above_chance, options.fit = true, options.names = {"x", "y"};
  recipe.options = options;
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK((again.options == recipe.options));
  CHECK(std::holds_alternative<RunGridOptions>(preset_recipe("methods-by-cache-size").options));
}

TEST_CASE("A click in the grid selects the head and shows its run as A, and other prompts are left out with a note") {
  std::vector<RunRecord> records = runs_of_one_text();
  records.push_back(random_run(4));
  test::Stage<RunGridView> s(records[0]);
  std::vector<RunMeasures> measures;
  std::vector<ListedRun> list;
  for (std::size_t i = 0; i < records.size(); ++i) {
    measures.push_back(measure_run(records[i]));
    list.push_back({static_cast<int>(i) + 1, test::shown(records[i]).run, 1, "a run", ""});
  }
  list[0].run = s.a.run;
  ListedRuns listed;
  listed.all = std::make_shared<const std::vector<ListedRun>>(list), listed.a = 1;
  listed.measures = [&](int id) { return &measures[static_cast<std::size_t>(id) - 1]; };
  int shown_as_a = 0;
  listed.show = [&](int a, int) { shown_as_a = a; };
  s.context.listed = &listed;
  s.draw();
  CHECK(s.text("run_grid.note") == "1 run is left out: another prompt or model, or not ended.");
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("run_grid.run.3", draw);
  CHECK(shown_as_a == 3);
  CHECK((s.selection.layer < 2 && s.selection.kv_head == 1));  // the middle of 3
  const auto cell = *s.window.items.find("run_grid.run.2");
  ImGui::GetIO().MousePos = {cell.centre_x(), cell.centre_y()};
  s.draw();
  CHECK_THAT(s.text("run_grid.hover"), Catch::StartsWith("run 2: ") && Catch::Contains("\nrun 5 "));
  s.window.click("run_grid.cells.1", draw);
  CHECK((s.selection.run_grid == RunGridLook{RunGridCells::tokens, RunMeasure::nll_answer}));
  s.selection.runs = {2, 4};
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  CHECK(std::get<RunGridOptions>(figure->options).names == std::vector<std::string>{"run 2", "run 4"});
  CHECK(figure->runs.size() == 2);
}

TEST_CASE("A grid of long runs is counted on a thread, and is there when it is done") {
  const test::RandomRunOptions large{.policy = "threshold:threshold=0.2,sinks=2,window=8",
                                     .n_layers = 24,
                                     .n_kv_heads = 16,
                                     .prompt_len = 2900,
                                     .n_new = 100,
                                     .oracle = false};
  test::Stage<RunGridView> s(random_run(3, large));
  const RunMeasures measures = measure_run(*s.a.run);
  ListedRuns listed;
  listed.all = std::make_shared<const std::vector<ListedRun>>(std::vector<ListedRun>{{1, s.a.run, 1, "a run", ""}});
  listed.a = 1;
  listed.measures = [&](int) { return &measures; };
  s.context.listed = &listed;
  s.draw(1);
  CHECK_FALSE(s.has("run_grid.run.1"));
  for (int i = 0; i < 2000 && !s.has("run_grid.run.1"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  CHECK(s.has("run_grid.run.1"));
}
