// What is said of numbers of two runs or of many: of how many runs and queries they are.

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/cut_run.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;

namespace {

const std::string kPolicy = "kvpop:budget=40,sinks=4,window=16";

/// Three with a recall, the last of them shorter; of one nothing was ever chosen.
std::vector<ShownRun> four_runs() {
  return {shown(random_run(1, {.policy = kPolicy})), shown(random_run(2, {.policy = kPolicy})),
          shown(random_run(3, {.policy = "full"})), shown(random_run(4, {.policy = kPolicy, .n_new = 50}))};
}

std::string hovered(Stage<LayerHeadMapView>& s) {
  std::string found = "(not drawn)";
  s.draw(30);
  s.window.click("map.cell.1.2", [&] {
    s.view.draw(s.context);
    found = s.window.items.text("map.hover").value_or(found);
  });
  return found;
}

}  // namespace

TEST_CASE("A map of several runs says how many have a value, of all heads and of the one under the mouse") {
  std::vector<ShownRun> set = four_runs();
  Stage<LayerHeadMapView> s(*set[0].run, {.q = 91});
  s.selection.metric = Metric::recall;
  s.context.set = &set;
  s.draw(30);
  CHECK(s.text("map.set") == "median of 3 of 4 runs, at query 91 or the run's last: 1 has no value there");
  CHECK_THAT(hovered(s), Catch::StartsWith("Oracle recall, median of 3 of 4 runs 0."));
  s.window.click("map.aggregate.2", [&] { s.view.draw(s.context); });
  CHECK_THAT(hovered(s), Catch::StartsWith("Oracle recall, spread over 3 of 4 runs 0."));

  const ViewFigure figure = s.view.figure(s.context).value();
  std::vector<const RunRecord*> runs;
  for (const ShownRun& run : set) runs.push_back(run.run.get());
  const BuiltFigure built = layer_head_map_figure(runs, std::get<LayerHeadMapOptions>(figure.options), {});
  CHECK_THAT(built.caption, Contains("interquartile range of 3 of 4 runs: 1 has no value there. Definition"));
  CHECK_THAT(built.caption, Contains("(2 layers × 3 KV heads), 170 to 180 tokens, 2 policies, the first kvpop:"));
  CHECK(std::get<std::vector<std::int64_t>>(built.data.columns[4].values) == std::vector<std::int64_t>(6, 3));

  set.erase(set.begin() + 2);
  s.draw(60);
  CHECK(s.text("map.set") == "interquartile range of 3 runs, at query 91 or the run's last");
  CHECK_THAT(hovered(s), Catch::StartsWith("Oracle recall, spread over 3 runs 0."));
  s.context.set = nullptr;
  s.draw(30);
  CHECK_THAT(hovered(s), Catch::StartsWith("Oracle recall 0."));
}

TEST_CASE("The inspector's numbers of a run with a dense prompt are the same beside the run itself") {
  const RunRecord run = cut_run("h2o:budget=60,window=16");
  for (const std::int32_t q : {100, 120, 150}) {
    CAPTURE(q);
    Stage<InspectorView> alone(run, {.layer = 1, .kv_head = 2, .q = q}),
        beside(run, {.layer = 1, .kv_head = 2, .q = q});
    beside.compare_with(run);
    const auto wait = [](Stage<InspectorView>& s) {
      for (int i = 0; i < 1000 && (!s.has("inspector.mean recall") || s.text("inspector.mean recall") == "..."); ++i) {
        s.draw(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      s.draw();
    };
    wait(alone), wait(beside);
    for (const char* name :
         {"recall at q", "chance", "mass kept", "mass recall", "mean recall", "mean chance", "recall above chance"}) {
      CAPTURE(name);
      const std::string item = std::string("inspector.") + name;
      CHECK(alone.text(item) != "(not drawn)");
      CHECK(beside.text(item) == alone.text(item));
      CHECK(beside.text(item + ".b") == alone.text(item));
    }
    CHECK(beside.text("inspector.oracle at q") == alone.text("inspector.oracle at q"));
    if (q == 100) CHECK(beside.text("inspector.recall at q") == "–");
    if (q == 120) CHECK_THAT(alone.text("inspector.mean recall"), Catch::EndsWith(" over 1 query"));
    if (q == 150) CHECK_THAT(alone.text("inspector.mean recall"), Catch::EndsWith(" over 31 queries"));
  }
}

TEST_CASE("Two maps at a query in the prompt of both say that it saw everything, not that the oracle has room") {
  Stage<LayerHeadMapView> s(cut_run("h2o:budget=60,window=16"), {.q = 100});
  s.selection.metric = Metric::recall;
  s.compare_with(cut_run("h2o:budget=90,window=16"));
  s.selection.map.compare = MapCompare::side_by_side;
  s.draw(30);
  CHECK_THAT(s.text("map.no_value"), Contains("prompt"));
  CHECK_THAT(s.text("map.b.no_value"), Contains("prompt"));
}
