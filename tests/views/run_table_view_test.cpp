// The table of runs and its chart: what is drawn are the measures of each run, and what is clicked is its run.
#include "views/run_table_view.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/minus.h"
#include "engine/core/support/text.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/recipe.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;

namespace {

/// The view over a list of runs with the ids 1, 2, ...
struct RunsStage {
  explicit RunsStage(std::vector<RunRecord> records, ImVec2 size = {1600, 900})
      : window(true, size), view(window.services) {
    auto all = std::make_shared<std::vector<ListedRun>>();
    for (RunRecord& record : records) {
      const int id = static_cast<int>(all->size()) + 1;
      measures.push_back(measure_run(record));
      all->push_back({id, std::make_shared<const RunRecord>(std::move(record)), 1, "", ""});
      all->back().title = all->back().run->policy.brief();
    }
    listed.all = std::move(all);
    listed.a = 1;
    listed.measures = [this](int id) { return is_known ? &measures[static_cast<std::size_t>(id) - 1] : nullptr; };
    listed.show = [this](int a, int b) { listed.a = a, listed.b = b; };
    listed.choose = [this](int id) {
      if (std::erase(selection.runs, id) == 0) selection.runs.push_back(id);
    };
    context.listed = &listed;
  }
  const RunRecord& run(int id) const { return *(*listed.all)[static_cast<std::size_t>(id) - 1].run; }
  void draw(int frames = 3) {
    for (int i = 0; i < frames; ++i) window.frame([&] { view.draw(context); });
  }
  void click(const std::string& item) {
    window.click(item, [&] { view.draw(context); });
    draw();
  }
  void hover(const std::string& item) {
    const auto rect = window.items.find(item);
    REQUIRE(rect.has_value());
    ImGui::GetIO().MousePos = {rect->x + rect->w / 2, rect->centre_y()};
    draw();
  }
  std::string text(const std::string& id) { return window.items.text(id).value_or("(not drawn)"); }
  std::string cell(int id, const char* measure) { return text("run_table.cell." + std::to_string(id) + "." + measure); }
  /// Ids from top to bottom.
  std::vector<int> order() {
    std::vector<std::pair<float, int>> rows;
    for (const ListedRun& one : *listed.all) {
      if (const auto rect = window.items.find("run_table.row." + std::to_string(one.id)))
        rows.emplace_back(rect->y, one.id);
    }
    std::ranges::sort(rows);
    std::vector<int> ids;
    for (const auto& [y, id] : rows) ids.push_back(id);
    return ids;
  }
  HeadlessWindow window;
  std::vector<RunMeasures> measures;
  bool is_known = true;
  ListedRuns listed;
  Selection selection;
  ViewContext context{nullptr, nullptr, &selection, nullptr};
  RunTableView view;
};

RunRecord timed(RunRecord run, double seconds) {
  run.timings.decode_s = seconds, run.timings.decode_steps = 60;
  run.model.dtype = "float32", run.model.head_dim = 16;
  return run;
}

std::vector<RunRecord> some_runs() {
  std::vector<RunRecord> runs;
  runs.push_back(timed(random_run(1), 3));
  runs.push_back(timed(random_run(2, {.policy = "streaming:sinks=4,window=30"}), 1));
  runs.push_back(timed(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}), 2));
  runs.push_back(random_run(4, {.policy = "full", .n_new = 0, .oracle = false}));
  return runs;
}

std::string written(double value) { return with_minus(number_text(value, 4)); }

}  // namespace

TEST_CASE("The table of runs has the numbers of each run as they are counted directly") {
  RunsStage s(some_runs());
  s.draw();
  for (const int id : {1, 2, 3}) {
    CAPTURE(id);
    const RunRecord& run = s.run(id);
    const int last = run.queries() - 1, n_heads = run.model.n_layers * run.model.n_kv_heads;
    double held = 0, text = 0;
    for (int head = 0; head < n_heads; ++head) {
      const auto& row = run.evict_at.row(head / run.model.n_kv_heads, head % run.model.n_kv_heads);
      held += static_cast<double>(std::ranges::count_if(row, [&](std::int32_t at) { return at > last; }));
    }
    int n = 0;
    for (const float p : run.logprobs) {
      if (!std::isnan(p)) text -= p, ++n;
    }
    CHECK(s.cell(id, "nll_answer") == written(answer_nll(run)));
    CHECK(s.cell(id, "nll_text") == written(text / n));
    const OracleMean oracle = mean_of(Oracle(run));
    CHECK((oracle.n > 0) == (id != 2));  // sinks and window leave no choice
    CHECK(s.cell(id, "above_chance") == (oracle.n > 0 ? written(oracle.above_chance()) : "–"));
    CHECK(s.cell(id, "cache_size") == written(mean_cache_size(run)));
    CHECK(s.cell(id, "cache_size_end") == written(held / n_heads / (last + 1)));
    CHECK(s.cell(id, "cache_bytes") == bytes_text(held * 2 * 16 * 4));
    CHECK(s.cell(id, "ms_per_token") == written(1000 * run.timings.decode_s / 60));
    CHECK(s.cell(id, "tokens") == "180");
    for (const RunMeasureInfo& info : run_measures()) {  // the glyphs on the screen
      std::string shown = s.cell(id, std::string(info.name).c_str());
      std::erase(shown, ' ');
      CHECK(s.window.written_in("run_table.cell." + std::to_string(id) + "." + std::string(info.name)) == shown);
    }
  }
}

TEST_CASE("What a run has no number of is a dash, and its hint has the reason") {
  RunsStage s(some_runs());
  s.draw();
  CHECK(s.cell(4, "nll_answer") == "–");
  CHECK(s.cell(4, "above_chance") == "–");
  CHECK(s.cell(4, "cache_size") == "1");
  s.hover("run_table.cell.4.nll_answer");
  CHECK(s.text("hint") == "The run has no answer: its text was only read.");
  s.hover("run_table.cell.4.above_chance");
  CHECK_THAT(s.text("hint"), Contains("No oracle"));
  s.is_known = false;
  s.draw();
  s.hover("run_table.cell.1.nll_answer");
  CHECK(s.cell(1, "nll_answer") == "...");
  CHECK(s.text("hint") == "Computing ...");
  CHECK(s.text("run_table.refusal") == "Computing ...");
}

TEST_CASE("A click on a header sorts: lowest first, highest first, as they came, and what is missing comes last") {
  RunsStage s(some_runs());
  s.draw();
  CHECK(s.order() == std::vector{1, 2, 3, 4});
  s.click("run_table.header.ms_per_token");
  CHECK(s.order() == std::vector{2, 3, 1, 4});
  CHECK(s.text("run_table.header.ms_per_token") == "ascending");
  s.click("run_table.header.ms_per_token");
  CHECK(s.order() == std::vector{1, 3, 2, 4});
  CHECK(s.text("run_table.header.ms_per_token") == "descending");
  CHECK(s.selection.run_table == RunTableLook{.sort = "ms_per_token", .descending = true});
  s.click("run_table.header.ms_per_token");
  CHECK(s.order() == std::vector{1, 2, 3, 4});
  s.click("run_table.header.run");
  CHECK(s.order() == std::vector{4, 3, 1, 2});  // full, kvpop:budget=40, kvpop:budget=64, streaming
}

TEST_CASE("A click on a row or dot shows its run as A, a letter makes it A or B, and the box ticks it") {
  RunsStage s(some_runs());
  s.draw();
  s.click("run_table.row.3");
  CHECK(s.listed.a == 3);
  s.click("run_table.b.2");
  CHECK(std::pair(s.listed.a, s.listed.b) == std::pair(3, 2));
  s.click("run_table.b.2");
  CHECK(s.listed.b == 0);
  s.click("run_table.a.1");
  CHECK(s.listed.a == 1);
  s.click("run_table.point.2");
  CHECK(s.listed.a == 2);
  s.hover("run_table.point.2");
  CHECK_THAT(s.text("run_table.hover"),
             Contains("2 streaming") && Contains(written(s.measures[1][RunMeasure::nll_answer])));
  s.click("run_table.tick.3");
  CHECK(s.selection.runs == std::vector{3});
  CHECK(s.text("run_table.ticked") == "1 of 4");
  CHECK(s.listed.a == 2);
}

TEST_CASE("The chart has a dot for each ticked run, or all, where its two numbers are, and the name of each") {
  RunsStage s(some_runs());
  s.draw();
  for (const int id : {1, 2, 3}) CHECK(s.window.items.find("run_table.point." + std::to_string(id)).has_value());
  CHECK_FALSE(s.window.items.find("run_table.point.4").has_value());  // it has no answer
  s.selection.runs = {1, 3};
  s.draw(10);
  CHECK_FALSE(s.window.items.find("run_table.point.2").has_value());
  // A larger cache is further right, a larger NLL higher.
  const auto one = *s.window.items.find("run_table.point.1"), three = *s.window.items.find("run_table.point.3");
  const auto of = [&](int id, RunMeasure measure) { return s.measures[static_cast<std::size_t>(id) - 1][measure]; };
  CHECK((one.x > three.x) == (of(1, RunMeasure::cache_size) > of(3, RunMeasure::cache_size)));
  CHECK((one.y < three.y) == (of(1, RunMeasure::nll_answer) > of(3, RunMeasure::nll_answer)));
  s.click("run_table.y.2");
  CHECK(s.selection.run_table.y == RunMeasure::above_chance);
  s.selection.runs = {4};
  s.draw(10);
  CHECK(s.text("run_table.refusal") == "No chosen run has recall above chance and normalised cache size.");
}

TEST_CASE("The exported figure is the table as shown, its dots are the ticked runs, and its recipe draws it again") {
  RunsStage s(some_runs());
  s.selection.runs = {3, 2};
  s.selection.run_table.sort = "ms_per_token";
  const ViewFigure figure = *s.view.figure(s.context);
  FigureRecipe recipe;
  recipe.options = figure.options;
  std::vector<const RunRecord*> runs;
  for (const auto& run : figure.runs) runs.push_back(run.get());
  const BuiltFigure built = build_figure(recipe, runs);
  CHECK(column<std::string>(built.data, "run") == std::vector<std::string>{"2 " + s.run(2).policy.brief(),
                                                                           "3 " + s.run(3).policy.brief(),
                                                                           "1 " + s.run(1).policy.brief(), "4 full"});
  CHECK(column<std::int64_t>(built.data, "drawn") == std::vector<std::int64_t>{1, 1, 0, 0});
  for (const RunMeasureInfo& info : run_measures()) {
    const auto& values = column<double>(built.data, std::string(info.name));
    const int shown[] = {2, 3, 1, 4};
    for (std::size_t i = 0; i < 4; ++i) {
      const double expected = s.measures[static_cast<std::size_t>(shown[i]) - 1][info.measure];
      CHECK(((std::isnan(values[i]) && std::isnan(expected)) || values[i] == expected));
    }
  }
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK(again.options == recipe.options);
  CHECK(build_figure(again, runs).data.to_csv() == built.data.to_csv());
  const auto has_label = [&](const std::string& label) {
    return std::ranges::any_of(built.figure.items, [&](const Primitive& item) {
      const Text* text = std::get_if<Text>(&item);
      return text != nullptr && text->utf8.substr(0, 4) == label.substr(0, 4);
    });
  };
  CHECK((has_label("2 streaming") && has_label("3 kvpop") && !has_label("1 kvpop")));
  auto& options = std::get<RunPointsOptions>(recipe.options);
  options.drawn = {7};
  CHECK_THROWS_WITH(build_figure(recipe, runs), Contains("a run, 0 to less than 4"));
  options.drawn.clear(), options.names.pop_back();
  CHECK_THROWS_WITH(build_figure(recipe, runs), Contains("4, one per run"));
}

TEST_CASE("The names of measures in recipes are those of the measures") {
  for (const RunMeasureInfo& info : run_measures()) {
    FigureRecipe recipe;
    recipe.options = RunPointsOptions{.x = info.measure};
    CHECK(to_json(recipe)["x"] == info.name);
  }
}

TEST_CASE("Table and chart of runs draw in any size, with many runs and with a run that goes on") {
  std::vector<RunRecord> records;
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    records.push_back(random_run(seed, {.prompt_len = 20 + static_cast<int>(seed), .n_new = 10}));
  RunsStage s(std::move(records));
  for (const ImVec2 size : {ImVec2{1600, 900}, ImVec2{700, 300}, ImVec2{300, 200}, ImVec2{60, 40}, ImVec2{2000, 120}}) {
    CAPTURE(size.x, size.y);
    s.window.resize(size);
    s.draw();
    CHECK(s.window.n_vertices() > 0);
  }
}
