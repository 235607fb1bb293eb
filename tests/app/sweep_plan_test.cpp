// What a sweep's recipe means, and what is no recipe.

#include "app/studies/sweep/sweep_plan.h"

#include <algorithm>
#include <fstream>

#include "tests/app/sweep_support.h"
#include "tests/support/expect_error.h"

using namespace kvscope;
using namespace kvscope::app;
using test::json;
using test::TemporaryFolder;
using test::write_recipe;

namespace {

json small_recipe() {
  return {{"model", test::sample_model().string()}, {"texts", {"a.txt"}}, {"policies", {"h2o:keep=50%,window=4"}}};
}

std::vector<std::string> policies_of(const SweepPlan& plan) {
  std::vector<std::string> texts;
  for (const SweepPoint& point : plan.points) texts.push_back(point.policy);
  return texts;
}

}  // namespace

TEST_CASE("a sweep's grid is every combination once, the dense policy and what is there twice left out", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = small_recipe();
  recipe["policies"] = {
      "full",
      "h2o:keep=50%,window=4",
      {{"policy", "kvpop:sinks=2"}, {"axes", {{"window", {64, 128}}, {"keep", {"50%", "25%", 0.125}}}}},
      {{"policy", "h2o"}, {"axes", {{"keep", {"50%", "25%"}}, {"window", {4}}}}},
      {{"policy", "tova:keep=25%"}}};
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), true);
  CHECK(policies_of(plan) ==
        std::vector<std::string>{"h2o:keep=50%,window=4", "kvpop:sinks=2,keep=50%,window=64",
                                 "kvpop:sinks=2,keep=50%,window=128", "kvpop:sinks=2,keep=25%,window=64",
                                 "kvpop:sinks=2,keep=25%,window=128", "kvpop:sinks=2,keep=0.125,window=64",
                                 "kvpop:sinks=2,keep=0.125,window=128", "h2o:keep=25%,window=4", "tova:keep=25%"});
  CHECK(plan.axes == std::vector<std::string>{"keep", "window"});
  CHECK(plan.points[0].curve == "h2o");
  CHECK(plan.points[2].curve == "kvpop:sinks=2,keep=*,window=128");  // along the axis of most values
  CHECK(plan.points[2].axes == std::map<std::string, std::string>{{"keep", "50%"}, {"window", "128"}});
  recipe["policies"][2]["along"] = "window";
  CHECK(plan_sweep(write_recipe(folder, recipe), true).points[2].curve == "kvpop:sinks=2,keep=50%,window=*");
}

TEST_CASE("a sweep reads texts at every chunk, asks tasks at every seed, and the dense policy once of each",
          "[sweep]") {
  const TemporaryFolder folder;
  const SweepPlan plan = plan_sweep(write_recipe(folder, test::usual_recipe()), true);
  std::vector<std::string> names;
  for (const SweepGroup& group : plan.groups) names.push_back(group.name() + (group.asks_dense ? ", dense" : ""));
  CHECK(names == std::vector<std::string>{"texts, chunk 1, dense", "texts, chunk 1, gate x", "texts, chunk 1, gate y",
                                          "texts, chunk 16, dense", "texts, chunk 16, gate x",
                                          "texts, chunk 16, gate y", "tasks, seed 1, dense", "tasks, seed 1, gate x",
                                          "tasks, seed 1, gate y", "tasks, seed 2, dense", "tasks, seed 2, gate x",
                                          "tasks, seed 2, gate y"});
  CHECK(plan.groups[4].request.gates == std::vector<std::string>{"x"});
  CHECK(plan.groups[4].request.chunk == 16);
  CHECK(plan.groups[4].request.tasks.empty());
  CHECK(plan.groups[10].request.seed == 2);
  CHECK(plan.groups[10].request.texts.empty());
  CHECK(plan.points.back().gate == "y");
  CHECK(plan.points.back().curve == "wg-kv:window=8 gate=*");
  CHECK(plan.n_answers() == (14 + 1 + 2) * (2 * 3 * 2 + 4 * 2));
}

TEST_CASE("several lengths are groups apart, each with its dense policy", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = small_recipe();
  recipe["tasks"] = {"needle"};
  recipe["length"] = {64, 128};
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), true);
  REQUIRE(plan.groups.size() == 4);
  CHECK(plan.groups[0].name() == "texts, chunk 1, length 64");
  CHECK(plan.groups[3].name() == "tasks, seed 1, length 128");
  for (const SweepGroup& group : plan.groups) {
    CHECK(group.request.length == group.length);
    CHECK(group.asks_dense);
  }
  recipe["length"] = {64};  // one of a list is the same as a number
  CHECK(plan_sweep(write_recipe(folder, recipe), true).groups[0].name() == "texts, chunk 1");
  CHECK(plan_sweep(write_recipe(folder, recipe), true).groups[0].request.length == 64);
}

TEST_CASE("an entry of another model is compared with the dense policy of the recipe's", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = small_recipe();
  const test::fs::path other = folder / "other";
  test::fs::create_directory(other);
  test::fs::copy(test::sample_model(), other, test::fs::copy_options::recursive);
  recipe["policies"].push_back({{"policy", "h2o:keep=50%,window=4"}, {"model", "other"}});
  recipe["policies"].push_back("tova:keep=25%");
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), false);
  CHECK(policies_of(plan) ==
        std::vector<std::string>{"h2o:keep=50%,window=4", "h2o:keep=50%,window=4", "tova:keep=25%"});
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.groups[0].request.model == plan.model);
  CHECK(plan.policies(plan.groups[0]) == std::vector<std::string>{"full", "h2o:keep=50%,window=4", "tova:keep=25%"});
  CHECK(plan.groups[1].request.model == other.string());
  CHECK(plan.policies(plan.groups[1]) == std::vector<std::string>{"h2o:keep=50%,window=4"});
  CHECK(plan.groups[1].name() == "texts, chunk 1, model " + other.string());
  CHECK(plan.groups[1].base() == plan.groups[0].base());
}

TEST_CASE("a sweep with rollouts draws each question so many times, as an evaluation does", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = small_recipe();
  recipe["tasks"] = {"needle"};
  recipe["questions"] = 3, recipe["pieces"] = 2, recipe["rollouts"] = 16;
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), true);
  CHECK(plan.n_answers() == 2 * (2 + 3 * 16));  // two policies
  CHECK(sweep_keys(plan, plan.groups[1]).size() == 2 * 3 * 16);
  CHECK(plan.groups[1].request.temperature == 0.6);
  CHECK(plan.groups[1].request.top_p == 0.95);
  recipe["temperature"] = 0;
  CHECK(test::error_of([&] {
          plan_sweep(write_recipe(folder, recipe), true);
        }).find("greedy rollouts are all the same") != std::string::npos);
}

TEST_CASE("the sweeps of the papers' tables can be planned", "[sweep]") {
  const auto tables = test::in_source("samples/recipes/tables");
  int n = 0;
  for (const auto& file : test::fs::directory_iterator(tables)) {
    if (file.path().extension() != ".json") continue;
    CAPTURE(file.path());
    json recipe = json::parse(test::read_text(file.path()));
    recipe.erase("train");
    const TemporaryFolder folder;
    if (recipe.contains("texts")) recipe["texts"] = {"a.txt"};
    const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), true);
    CHECK(plan.n_answers() > 100);
    if (recipe.contains("tasks") && recipe["tasks"][0] == "ruler") CHECK(plan.request.tasks.size() == 13);
    if (recipe.contains("tasks") && recipe["tasks"][0] == "helmet") CHECK(plan.request.tasks.size() == 7);
    ++n;
  }
  CHECK(n >= 8);
}

TEST_CASE("the gallery's sweep has a curve for admission, one for eviction and one for both", "[sweep]") {
  const TemporaryFolder folder;
  const json recipe = json::parse(test::read_text(test::in_source("samples/recipes/sweep-joint.json")));
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), true);
  std::map<std::string, int> curves;
  for (const SweepPoint& point : plan.points) ++curves[point.curve];
  CHECK(curves == std::map<std::string, int>{{"wg-kv gate=*", 3},
                                             {"snapkv:window=32,pooling=max,group=max,pool=*", 3},
                                             {"wg-kv:pool=512 gate=*", 3}});
  CHECK(plan.n_answers() == 10 * 2 * 6);
}

TEST_CASE("no gate is loaded for the dense policy, nor for one that reads another", "[sweep]") {
  const TemporaryFolder folder;
  json recipe = small_recipe();
  recipe["policies"] = {"h2o:keep=50%,window=4", "wg-kv", "sp-kv", "wg-kv:threshold=0.5"};
  const SweepPlan plan = plan_sweep(write_recipe(folder, recipe), false);
  REQUIRE(plan.groups.size() == 3);
  CHECK(plan.groups[0].request.gates.empty());
  CHECK(plan.policies(plan.groups[0]) == std::vector<std::string>{"full", "h2o:keep=50%,window=4"});
  CHECK(plan.policies(plan.groups[1]) == std::vector<std::string>{"wg-kv", "wg-kv:threshold=0.5"});
  CHECK(plan.policies(plan.groups[2]) == std::vector<std::string>{"sp-kv"});
  for (const std::size_t g : {1, 2}) {
    const std::string name = test::fs::path(plan.groups[g].request.gates.at(0)).filename().string();
    CHECK(plan.groups[g].request.gates.size() == 1);
    CHECK(plan.groups[g].name() == "texts, chunk 1, with " + name);
  }
}

TEST_CASE("the shards of a sweep have every answer once, and each has its part of every policy", "[sweep]") {
  const TemporaryFolder folder;
  const SweepPlan plan = plan_sweep(write_recipe(folder, test::usual_recipe()), true);
  for (const SweepGroup& group : plan.groups) {
    std::vector<std::string> all = sweep_keys(plan, group), joined;
    for (int shard = 0; shard < 3; ++shard) {
      const std::vector<std::string> part = sweep_keys(plan, group, {.index = shard, .of = 3});
      const std::string one = "\t" + plan.policies(group)[0] + "\t";
      CHECK(std::ranges::count_if(part, [&](const std::string& key) { return key.find(one) != key.npos; }) >= 1);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    std::ranges::sort(all);
    std::ranges::sort(joined);
    CHECK(all == joined);
  }
}

TEST_CASE("a recipe that is wrong is one line that names the place, code 2, and nothing is written", "[sweep]") {
  const TemporaryFolder folder;
  struct Case {
    const char* what;
    json changes;  // merged into a good recipe; null removes
    const char* says;
  };
  const Case cases[] = {
      {"unknown key", {{"policy", "h2o"}}, "\"policy\", which is not one of its parameters; expected name"},
      {"close key", {{"piece", 3}}, "did you mean pieces?"},
      {"unknown policy", {{"policies", {"h3o"}}}, "policies[0]: "},
      {"unknown parameter", {{"policies", {{{"policy", "h2o"}, {"axes", {{"keeps", {"50%"}}}}}}}}, "keeps"},
      {"out of range", {{"policies", {"h2o:keep=50%", "h2o:keep=150%"}}}, "policies[1]: "},
      {"no policies", {{"policies", nullptr}}, "policies: nothing; expected a list of policies"},
      {"empty axis",
       {{"policies", {{{"policy", "h2o"}, {"axes", {{"keep", json::array()}}}}}}},
       "policies[0].axes.keep: []"},
      {"axis of objects",
       {{"policies", {{{"policy", "h2o"}, {"axes", {{"keep", {json::object()}}}}}}}},
       "axes.keep: {}"},
      {"key of an entry", {{"policies", {{{"policy", "h2o"}, {"axis", json::object()}}}}}, "did you mean axes?"},
      {"along nothing", {{"policies", {{{"policy", "tova"}, {"along", "keep"}}}}}, "policies[0].along: \"keep\""},
      {"neither texts nor tasks", {{"texts", nullptr}}, "texts, tasks: neither"},
      {"text that is not there", {{"texts", {"c.txt"}}}, "c.txt is not there"},
      {"chunk", {{"chunk", {1, 0}}}, "chunk: 0; expected whole numbers from 1"},
      {"length twice", {{"length", {64, 64}}}, "length: 64; expected whole numbers from 0"},
      {"seed twice", {{"seeds", {1, 1}}}, "seeds: 1; expected whole numbers"},
      {"cost", {{"cost", "money"}}, "cost: \"money\"; expected cache_size"},
      {"density of different windows",
       {{"cost", "density"}, {"policies", {"streaming:window=64", "wg-kv:window=256"}}},
       "cost: \"density\" for policies with windows of 64 to 256 tokens; expected policies with one window"},
      {"matched", {{"matched", {"half"}}}, "matched: \"half\""},
      {"no such model", {{"model", "kvscope-tinny"}}, "kvscope-tinny"},
      {"no gate of that kind", {{"policies", {"kvzap"}}}, "kvzap"},
      {"no gate of that name", {{"policies", {{{"policy", "wg-kv"}, {"gates", {"none-0.1"}}}}}}, "none-0.1"},
      {"a command", {{"gates", {"pipe:touch mark"}}}, "\"pipe:touch mark\", a command; expected a path or a name"},
      {"a command of an entry",
       {{"policies", {{{"policy", "top-k:budget=64"}, {"gates", {"pipe:touch mark"}}}}}},
       "\"pipe:touch mark\", a command; expected a path or a name"},
      {"a gate of another policy", {{"policies", {{{"policy", "wg-kv"}, {"gates", {"sp-kv"}}}}}}, "sp-kv"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    json recipe = small_recipe();
    recipe.merge_patch(c.changes);
    write_recipe(folder, recipe);
    const auto result = test::Sweep{.folder = folder, .engine = ""}.run();
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(test::count_lines(result.err) == 1);
    CHECK(result.err.find(c.says) != std::string::npos);
    CHECK(std::distance(test::fs::directory_iterator(folder.path()), {}) == 3);  // recipe and texts
  }
}
