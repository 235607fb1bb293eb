// The variants of KVpop's mLSTM in training. Their scores: train_losses_test.cpp; in the decoder: scorer_test.cpp.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/recipe.h"
#include "engine/jobs/train/scorer_module.h"
#include "tests/engine/train_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/mlstm_variants.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr int kHeads = 2, kTokens = 7, kDim = 4;

/// Random tensors of two heads, in double.
Tensors random_layer(const MlstmVariant& variant) {
  const std::int64_t map = variant.feature_map == FeatureMap::softmax ? kDim : kDim / 2;
  std::map<std::string, std::vector<std::int64_t>> shapes = {{"wq", {2 * kDim, map}},
                                                             {"wk", {2 * kDim, map}},
                                                             {"gi", {2 * kDim, 1}},
                                                             {"gf", {2 * kDim, 1}},
                                                             {"bi", {1}},
                                                             {"bf", {1}},
                                                             {"b", {}},
                                                             {"out", {variant.skip ? 3 * kDim : kDim}}};
  if (!variant.cached_values) shapes["wv"] = {2 * kDim, kDim};
  if (variant.head_norm) shapes["norm"] = {kDim};
  Tensors layer;
  for (auto& [name, shape] : shapes) {
    shape.insert(shape.begin(), kHeads);
    layer[name] = at::randn(shape, at::kDouble).set_requires_grad(true);
  }
  return layer;
}

MlstmLayer layer_of(const Tensors& t) {
  const auto get = [&](const char* name) { return t.contains(name) ? t.at(name) : at::Tensor(); };
  return {get("wq"), get("wk"), get("wv"),  get("gi"), get("gf"),
          get("bi"), get("bf"), get("out"), get("b"),  get("norm")};
}

/// Steps so large that a gate's file, in bfloat16, shows them.
nlohmann::json overrides(const nlohmann::json& variant) {
  nlohmann::json scorer = {
      {"steps", 2},     {"batch", 1},   {"window", 8},           {"top_k", {16}},         {"queries", 8},
      {"log_every", 1}, {"warm_up", 0}, {"learning_rate", 0.05}, {"heldout_sequences", 1}};
  scorer.update(variant);
  return {{"data", {{"length", 192}}}, {"scorer", scorer}};
}

}  // namespace

TEST_CASE("the gradient of the mLSTM's variants is that of finite differences, for every tensor") {
  // In double: a step of 1e-6 leaves 1e-10 of rounding and 1e-12 of curvature.
  const MlstmVariant variant = test::mlstm_variants()[GENERATE(0u, 1u, 2u, 3u, 4u)];
  at::manual_seed(21);
  const Tensors layer = random_layer(variant);
  const at::Tensor x = at::randn({kHeads, 1, kTokens, 2 * kDim}, at::kDouble);
  const at::Tensor tokens = at::tensor({0, 2, 3, 6, 1, 2, 4, 5}, at::kLong).view({kHeads, 1, 4});
  const at::Tensor seen = at::randn({kHeads, 1, 4}, at::kDouble);
  const MlstmNumbers numbers = {.delay = 2, .soft_cap = 3, .feature_map = variant.feature_map};
  const auto loss = [&](const Tensors& with) {
    return (mlstm_scores(layer_of(with), x, tokens, numbers) * seen).sum();
  };
  loss(layer).backward();
  for (const auto& [name, values] : layer) {
    const at::Tensor flat = values.detach().flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      CAPTURE(name, i);
      const auto at_step = [&](double step) {
        Tensors moved = layer;
        at::Tensor other = flat.clone();
        other[i] += step;
        moved[name] = other.view(values.sizes());
        return loss(moved).item<double>();
      };
      const double slope = (at_step(1e-6) - at_step(-1e-6)) / 2e-6;
      CHECK(values.grad().flatten()[i].item<double>() == Approx(slope).epsilon(1e-6).margin(1e-8));
    }
  }
}

TEST_CASE("an override of the reasoner's recipe trains each variant of KVpop, and its gate can be read") {
  struct Case {
    nlohmann::json variant;
    const char* folder;
    MlstmVariant expected;
  };
  const auto c =
      GENERATE(Case{{{"head_norm", true}}, "kvpop-norm-w8", {.head_norm = true}},
               Case{{{"feature_map", "softmax"}}, "kvpop-softmax-w8", {.feature_map = FeatureMap::softmax}},
               Case{{{"cached_values", true}}, "kvpop-cached-w8", {.cached_values = true}},
               Case{{{"skip", false}}, "kvpop-no-skip-w8", {.skip = false}},
               Case{{{"head_norm", true}, {"feature_map", "softmax"}, {"cached_values", true}, {"immediate", true}},
                    "kvpop-immediate-softmax-norm-cached-w8",
                    {.feature_map = FeatureMap::softmax, .head_norm = true, .cached_values = true}});
  CAPTURE(c.folder);
  const test::TempFolder scratch;
  std::vector<double> losses;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) { losses.push_back(row["loss_boundary"]); };
  train_job({{"recipe", test::in_source("samples/recipes/reasoner/kvpop.json")},
             {"overrides", overrides(c.variant)},
             {"base", test::kModel.string()},
             {"data", test::kModel.string()},
             {"output", scratch.path().string()},
             {"device", "cpu"},
             {"threads", 1}},
            context);
  REQUIRE(losses.size() == 2);
  CHECK(losses[1] != losses[0]);
  const GateFile gate = load_gate(scratch / c.folder, ModelConfig::load(test::kModel));
  CHECK(gate.config.mlstm == c.expected);
  // Not the biases: a contest compares two scores of a head, and what they share has no gradient.
  CHECK(std::ranges::any_of(gate.tensors.at("out").values, [](float x) { return x != 0; }));
  REQUIRE(gate.tensors.contains("norm") == c.expected.head_norm);
  CHECK(gate.tensors.contains("wv") != c.expected.cached_values);
  if (!c.expected.head_norm) return;
  const std::vector<float>& norm = gate.tensors.at("norm").values;  // it begins at 1
  CHECK(std::ranges::any_of(norm, [](float x) { return x != 1; }));
  CHECK(std::ranges::all_of(norm, [](float x) { return x > 0.8f && x < 1.2f; }));
}

TEST_CASE("each recipe of the reasoner's gates trains, and leaves what its README says") {
  struct Case {
    const char* name;
    std::size_t n_stages;
    bool gate, adapter, model;
  };
  const auto c = GENERATE(Case{"kvpop", 1, true, false, false}, Case{"kvpop-joint", 1, true, false, true},
                          Case{"wg-kv", 3, true, false, false}, Case{"wg-kv-no-window", 3, true, false, false},
                          Case{"sp-kv", 2, true, false, false}, Case{"sp-kv-published", 1, true, false, true},
                          Case{"dms", 1, true, false, false}, Case{"streaming", 1, false, true, false});
  CAPTURE(c.name);
  nlohmann::json recipe = read_json(test::in_source("samples/recipes/reasoner/" + std::string(c.name) + ".json"));
  recipe["data"]["length"] = 192;
  if (recipe.contains("scorer")) {
    recipe["scorer"].update({{"window", 8}, {"top_k", {16}}, {"queries", 8}, {"steps", 1}});
  } else {
    recipe["gate"]["window"] = std::min(32, recipe["gate"]["window"].get<int>());
    for (nlohmann::json& stage : recipe["gate"]["stages"]) stage["steps"] = 1;
  }
  recipe[recipe.contains("scorer") ? "scorer" : "gate"].update(
      {{"batch", 2}, {"log_every", 1}, {"warm_up", 0}, {"heldout_sequences", 1}});
  const test::TempFolder scratch;
  std::size_t n_rows = 0;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) {
    ++n_rows;
    for (const auto& [key, value] : row.items()) {
      CAPTURE(key);
      if (key.starts_with("loss")) CHECK(std::isfinite(value.get<double>()));
    }
  };
  train_job({{"recipe", recipe},
             {"base", test::kModel.string()},
             {"data", test::kModel.string()},
             {"output", scratch.path().string()},
             {"device", "cpu"},
             {"threads", 1}},
            context);
  CHECK(n_rows == c.n_stages);
  const auto n_files = [&](const char* name) {
    const auto files = std::filesystem::recursive_directory_iterator(scratch.path());
    return std::count_if(begin(files), end(files), [&](const auto& file) { return file.path().filename() == name; });
  };
  const auto n = static_cast<std::ptrdiff_t>(c.n_stages);
  CHECK(n_files("gate.json") == (c.gate ? n : 0));
  CHECK(n_files("adapter_config.json") == (c.adapter ? n : 0));
  CHECK(n_files("config.json") == (c.model ? n : 0));
}

TEST_CASE("a recipe's variant of the mLSTM is refused by name where it has no meaning") {
  const ModelConfig base = ModelConfig::load(test::kModel);
  const auto refusal = [&](const nlohmann::json& scorer, const ModelConfig* model) {
    nlohmann::json recipe = read_json(test::in_source("samples/recipes/reasoner/kvpop.json"));
    recipe.merge_patch(overrides(scorer));
    if (model == nullptr) {
      recipe["model"] = {{"layers", 1}};
      recipe["base"] = {{"steps", 1}};
    }
    return test::error_of([&] { Recipe::parse(recipe, "recipe.json", model); });
  };
  CHECK(refusal({{"feature_map", "softmax"}}, &base) == "no error");
  CHECK_THAT(refusal({{"feature_map", "relu"}}, &base),
             Catch::Contains("scorer.feature_map: ") && Catch::Contains("hedgehog") && Catch::Contains("softmax"));
  CHECK_THAT(refusal({{"head_norm", "yes"}}, &base), Catch::Contains("head_norm"));
  CHECK_THAT(refusal({{"kind", "linear"}, {"cached_values", true}}, &base),
             Catch::Contains("scorer.cached_values: a key of kind mlstm; expected none for kind linear"));
  CHECK_THAT(refusal({{"head_norm", true}}, nullptr),
             Catch::Contains("a variant of it"));  // kvpop_scorer.json has none
}
