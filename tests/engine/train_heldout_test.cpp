// Probes of real trainings of the sample model: the last of them is what the engine says of the finished gate, score by score, and a
// training with probes is the one without.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/decode/gate_pass.h"
#include "engine/jobs/job.h"
#include "tests/engine/train_support.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using test::kModel, test::kText;

struct Probed {
  std::vector<std::int64_t> steps;
  std::vector<nlohmann::json> probes;
  nlohmann::json result;
};

Probed train(const nlohmann::json& recipe, const fs::path& output) {
  Probed out;
  engine::JobContext context;
  context.curve = [&](const nlohmann::json& told) {
    if (!told.contains("probe") || !told["probe"].contains("scores")) return;
    out.steps.push_back(told["probe"]["step"]);
    out.probes.push_back(told["probe"]);
  };
  out.result = engine::train_job(
      {{"recipe", recipe}, {"base", kModel}, {"data", kText}, {"output", output}, {"device", "cpu"}}, context);
  return out;
}

nlohmann::json gate_recipe(const std::string& method) {
  nlohmann::json gate = {{"method", method}, {"hidden", 8},    {"window", 16},           {"sinks", 2},
                         {"batch", 1},       {"log_every", 1}, {"heldout_sequences", 1}, {"learning_rate", 1e-2}};
  gate["warm_up"] = 0;
  nlohmann::json recipe = {
      {"name", "test"}, {"seed", 3}, {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}}};
  if (method == "kvzap") {
    recipe["data"] = {{"kind", "repeat"}, {"length", 200}};
    gate["steps"] = 5;
  } else {
    gate["stages"] = {{{"steps", 5}}};
  }
  recipe["gate"] = gate;
  return recipe;
}

nlohmann::json scorer_recipe(const std::string& kind) {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
          {"scorer",
           {{"kind", kind},
            {"steps", 5},
            {"batch", 1},
            {"window", 8},
            {"top_k", {16}},
            {"queries", 8},
            {"log_every", 1},
            {"warm_up", 0},
            {"learning_rate", 1e-2},
            {"heldout_sequences", 1}}}};
}

/// What is trained, and the probe's distance from the engine's scores that is allowed: the one sums in another order.
struct Case {
  const char* name;
  nlohmann::json recipe;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* method : {"wg-kv", "sp-kv", "dms", "kvzap"}) all.push_back({method, gate_recipe(method)});
  nlohmann::json convolved = gate_recipe("sp-kv"), joint = gate_recipe("sp-kv");
  convolved["gate"]["kernel"] = 5;
  joint["gate"]["adapter"] = {{"rank", 2}, {"learning_rate", 1e-2}};
  all.push_back({"sp-kv with a convolution", convolved});
  all.push_back({"sp-kv with an adapter of the base", joint});
  for (const char* kind : {"mlstm", "mlp", "linear"}) all.push_back({kind, scorer_recipe(kind)});
  return all;
}

std::vector<float> scores_of(const nlohmann::json& probe) {
  const std::vector<std::uint8_t>& bytes = probe["scores"].get_binary();
  std::vector<float> scores(bytes.size() / sizeof(float));
  std::memcpy(scores.data(), bytes.data(), bytes.size());
  return scores;
}

fs::path folder_of(const nlohmann::json& result) {
  if (result.contains("scorer")) return result["scorer"]["folder"].get<std::string>();
  return result["gate"].contains("folder") ? result["gate"]["folder"].get<std::string>()
                                           : result["gate"]["stages"][0]["folder"].get<std::string>();
}

TEST_CASE("the last probe of a training is what the engine says of the finished gate, within 1e-4 of a head's range",
          "[engine][train]") {
  const auto all = cases();
  const Case& of = all[GENERATE(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u)];
  CAPTURE(of.name);
  const test::TempFolder scratch;
  nlohmann::json recipe = of.recipe;
  recipe["probe"] = {{"text",
                      "The king lived in a castle by the sea. The castle had one thousand and twenty rooms, and "
                      "the king had never seen the half of them; his daughter had seen them all."},
                     {"tokens", 40},
                     {"every", 2}};
  const Probed trained = train(recipe, scratch / "out");
  CHECK(trained.steps == std::vector<std::int64_t>{0, 2, 4, 5});
  const nlohmann::json& last = trained.probes.back();
  const auto ids = last["tokens"].get<std::vector<std::int32_t>>();
  REQUIRE(ids.size() == 40);
  CHECK(last["pieces"].size() == 40);
  const engine::LoadedModel model = engine::LoadedModel::load(
      kModel, {.device = "cpu", .dtype = "float32", .gates = {folder_of(trained.result).string()}});
  const ScoresOfGates engine = engine::gate_scores(model, {ids});
  const HeadSeries<float>& expected = engine[0].scores;
  REQUIRE(last["shape"] == nlohmann::json{expected.n_layers(), expected.n_kv_heads(), 40});
  const std::vector<float> found = scores_of(last);
  std::size_t i = 0;
  double most = 0, moved = 0;
  for (int layer = 0; layer < expected.n_layers(); ++layer) {
    for (int head = 0; head < expected.n_kv_heads(); ++head) {
      double size = 1;
      for (const float score : expected.row(layer, head))
        if (!std::isnan(score)) size = std::max(size, std::abs(static_cast<double>(score)));
      for (const float score : expected.row(layer, head)) {
        REQUIRE(std::isnan(score) == std::isnan(found[i]));
        if (!std::isnan(score)) {
          most = std::max(most, std::abs(static_cast<double>(score) - found[i]) / size);
          moved = std::max(moved, std::abs(static_cast<double>(scores_of(trained.probes[0])[i]) - found[i]));
        }
        ++i;
      }
    }
  }
  CHECK(most < 1e-4);
  CHECK(moved > 1e-3);  // it has learned something
}

TEST_CASE("a training with probes makes the gate of one without, and its text is held out unless it is given",
          "[engine][train]") {
  const test::TempFolder scratch;
  nlohmann::json plain = gate_recipe("wg-kv"), probed = plain;
  probed["probe"] = true;
  const Probed without = train(plain, scratch / "a"), with = train(probed, scratch / "b");
  CHECK(without.steps.empty());
  CHECK(with.steps == std::vector<std::int64_t>{0, 5});
  const auto hash = [&](const char* folder) { return load_gate(scratch / folder / "wg-kv").hash; };
  CHECK(hash("a") == hash("b"));
  CHECK(with.probes[0]["tokens"].size() == 96);            // the whole of a sequence, which is shorter than 256
  CHECK(with.probes[0]["threshold"].get<float>() > 0.1F);  // WG-KV keeps what is above it: the next float
  probed["probe"] = {{"file", kText}, {"tokens", 20}};
  CHECK(train(probed, scratch / "c").probes[0]["tokens"].size() == 20);
}

TEST_CASE("KVzap's threshold is known at the end, and told of its probes", "[engine][train]") {
  const test::TempFolder scratch;
  nlohmann::json recipe = gate_recipe("kvzap");
  recipe["probe"] = {{"tokens", 16}};
  std::vector<nlohmann::json> thresholds;
  engine::JobContext context;
  context.curve = [&](const nlohmann::json& told) {
    if (told.contains("probe")) thresholds.push_back(told["probe"]["threshold"]);
  };
  engine::train_job(
      {{"recipe", recipe}, {"base", kModel}, {"data", kText}, {"output", scratch / "o"}, {"device", "cpu"}}, context);
  REQUIRE(thresholds.size() == 3);
  CHECK(thresholds[0].is_null());
  CHECK(thresholds[2].get<float>() == static_cast<float>(load_gate(scratch / "o/kvzap-mlp").config.threshold));
}

TEST_CASE("a probe that cannot be is refused in a line with its key", "[engine][train]") {
  const test::TempFolder scratch;
  const auto refusal = [&](const nlohmann::json& recipe) -> std::string {
    try {
      train(recipe, scratch / "out");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  nlohmann::json recipe = gate_recipe("wg-kv");
  recipe["probe"] = {{"every", 0}};
  CHECK_THAT(refusal(recipe), Catch::Contains("probe.every"));
  recipe["probe"] = {{"often", 3}};
  CHECK_THAT(refusal(recipe), Catch::Contains("probe.often: an unknown key"));
  recipe["probe"] = {{"text", "a"}, {"file", "b"}};
  CHECK_THAT(refusal(recipe), Catch::Contains("probe.file: a text as well"));
  recipe["probe"] = {{"file", (scratch / "none.txt").string()}};
  CHECK_THAT(refusal(recipe), Catch::Contains("none.txt"));
  recipe["probe"] = {{"tokens", 97}};
  CHECK_THAT(refusal(recipe), Catch::Contains("probe.tokens"));
  recipe["probe"] = {{"every", 1}};
  recipe["gate"]["stages"] = {{{"steps", 1000000}}};
  CHECK_THAT(refusal(recipe), Catch::Contains("probe.every: 1000002 probes of 2304 scores"));
  nlohmann::json scorer = scorer_recipe("mlstm");
  scorer["probe"] = {{"text", "too short"}};
  CHECK_THAT(refusal(scorer), Catch::Contains("9 tokens or more"));
  nlohmann::json none = gate_recipe("full");
  none["gate"].erase("hidden"), none["gate"]["adapter"] = true, none["probe"] = true;
  CHECK_THAT(refusal(none), Catch::Contains("probe: method full, which has no scores"));
}

}  // namespace
}  // namespace kvscope
