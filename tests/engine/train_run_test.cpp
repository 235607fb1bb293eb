// Whole trainings, small: the same seed gives the same losses, losses fall, and what is written can be read.

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/optimizer.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

const fs::path kSamples = test::in_source("samples");

bool has_sample() { return fs::exists(kSamples / "models/kvscope-tiny/tokenizer.json"); }

/// A corpus folder out of the held-out text: training on it is no matter here.
fs::path make_corpus(const fs::path& folder) {
  fs::create_directories(folder);
  const fs::path tokenizer_folder = kSamples / "models/kvscope-tiny";
  fs::copy_file(tokenizer_folder / "tokenizer.json", folder / "tokenizer.json");
  const auto ids =
      Tokenizer::load(tokenizer_folder).encode(read_file(kSamples / "prompts/heldout.txt", 1 << 24).substr(0, 120000));
  const std::vector<std::uint16_t> tokens(ids.begin(), ids.end());
  std::ofstream(folder / "text.u16", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  return folder;
}

nlohmann::json tiny_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"model", {{"layers", 2}, {"hidden", 32}, {"heads", 4}, {"kv_heads", 2}, {"head_dim", 8}, {"ffn", 64}}},
          {"data",
           {{"length", 192},
            {"slots", 5},
            {"min_numbers", 2},
            {"max_numbers", 3},
            {"min_facts", 1},
            {"max_facts", 2},
            {"heldout_share", 0.1}}},
          {"base",
           {{"steps", 10},
            {"batch", 4},
            {"learning_rate", 1e-2},
            {"warm_up", 2},
            {"log_every", 1},
            {"heldout_sequences", 2}}},
          {"scorer",
           {{"steps", 10},
            {"batch", 2},
            {"warm_up", 2},
            {"window", 8},
            {"top_k", {16, 32}},
            {"queries", 16},
            {"log_every", 1},
            {"heldout_sequences", 2}}}};
}

struct Result {
  nlohmann::json result;
  std::vector<double> base_losses, scorer_losses;
};

Result train(const nlohmann::json& recipe, const fs::path& data, const fs::path& output, int threads = 1) {
  Result out;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) {
    if (row.contains("loss_all")) out.base_losses.push_back(row["loss_all"]);
    if (row.contains("loss_boundary")) out.scorer_losses.push_back(row["loss_boundary"]);
  };
  out.result = train_job(
      {{"recipe", recipe}, {"data", data}, {"output", output}, {"device", "cpu"}, {"threads", threads}}, context);
  return out;
}

double mean_of(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += values[i];
  return sum / static_cast<double>(end - begin);
}

}  // namespace

TEST_CASE("the same seed gives the same losses, step by step, and a model that can be read again") {
  if (!has_sample()) return test::skip("no sample model");
  const test::TempFolder scratch;
  const fs::path data = make_corpus(scratch / "data"), output = scratch / "one";
  const Result one = train(tiny_recipe(), data, output, 1), two = train(tiny_recipe(), data, scratch / "two", 3);
  REQUIRE(one.base_losses.size() == 10);
  CHECK(one.base_losses == two.base_losses);
  REQUIRE(one.scorer_losses.size() == 10);
  CHECK(one.scorer_losses == two.scorer_losses);
  auto other = tiny_recipe();
  other["seed"] = 4;
  CHECK(train(other, data, scratch / "three").base_losses != one.base_losses);
  CHECK(read_file(output / "model.safetensors", 1 << 24) == read_file(scratch / "two/model.safetensors", 1 << 24));

  // 8.32 = ln 4096 is where a model that knows nothing starts.
  CHECK(one.base_losses.front() == Approx(std::log(4096.0)).margin(0.3));
  CHECK(one.base_losses.back() < one.base_losses.front() - 0.5);

  const ModelConfig config = ModelConfig::load(output);
  CHECK(config.n_layers == 2);
  CHECK(config.n_kv_heads == 2);
  CHECK(config.max_positions == 192);
  CHECK(config.tie_word_embeddings);
  const auto file = SafetensorsFile::open(output / "model.safetensors");
  CHECK(file.tensors().size() == 2 + 2 * 11);
  CHECK(file.tensors().at("model.layers.1.self_attn.k_proj.weight").shape == std::vector<std::int64_t>{16, 32});
  const auto scorer = SafetensorsFile::open(output / "kvpop_scorer.safetensors");
  CHECK(scorer.tensors().at("wq").shape == std::vector<std::int64_t>{2, 2, 16, 4});
  CHECK(scorer.tensors().at("out").shape == std::vector<std::int64_t>{2, 2, 24});
  CHECK(read_json(output / "kvpop_scorer.json")["window"] == 8);

  // What is read is what was written: a second writing gives the same bytes.
  DecoderModule model(config, 192, at::kCPU, at::kFloat, /*trained=*/true);
  read_model(output, model);
  write_model(scratch / "again", model, output / "tokenizer.json");
  CHECK(read_file(scratch / "again/model.safetensors", 1 << 24) == read_file(output / "model.safetensors", 1 << 24));
}

TEST_CASE("the scorer's loss falls below that of equal scores") {
  if (!has_sample()) return test::skip("no sample model");
  const test::TempFolder scratch;
  auto recipe = tiny_recipe();
  recipe["scorer"]["steps"] = 60;
  recipe["scorer"]["learning_rate"] = 1e-2;
  const Result run = train(recipe, make_corpus(scratch / "data"), scratch / "out");
  REQUIRE(run.scorer_losses.size() == 60);
  CHECK(mean_of(run.scorer_losses, 50, 60) < 0.9 * run.scorer_losses.front());  // it starts with every score 0
}

TEST_CASE("a scorer's curve has the token accuracy under its eviction, which with room for all is the dense model's") {
  if (!has_sample()) return test::skip("no sample model");
  const test::TempFolder scratch;
  auto recipe = tiny_recipe();
  recipe["scorer"]["accuracy_sequences"] = 2;
  recipe["scorer"]["top_k"] = {182, 16};  // 182 + 8 + ... : nothing leaves before the last queries
  recipe["scorer"]["sinks"] = 0;
  std::vector<double> accuracies;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) {
    if (row.contains("token_accuracy")) accuracies.push_back(row["token_accuracy"]);
  };
  const fs::path data = make_corpus(scratch / "data"), output = scratch / "out";
  train_job({{"recipe", recipe}, {"data", data}, {"output", output}, {"device", "cpu"}, {"threads", 1}}, context);
  REQUIRE(accuracies.size() == 10);
  for (const double accuracy : accuracies) {
    CHECK(accuracy == Approx(accuracies[0]).margin(0.01));  // the base is frozen, and loses next to nothing
    CHECK(accuracy > 0);
    CHECK(accuracy < 1);
  }
}

TEST_CASE("a cancelled training says so and writes no weights") {
  if (!has_sample()) return test::skip("no sample model");
  const test::TempFolder scratch;
  const std::atomic<bool> cancelled{true};
  JobContext context;
  context.cancelled = &cancelled;
  const auto result = train_job({{"recipe", tiny_recipe()},
                                 {"data", make_corpus(scratch / "data")},
                                 {"output", scratch / "out"},
                                 {"device", "cpu"}},
                                context);
  CHECK(result["status"] == "cancelled");
  CHECK_FALSE(fs::exists(scratch / "out/model.safetensors"));
}

TEST_CASE("a recipe with a wrong, unknown or contradictory key is refused by its name") {
  struct Case {
    const char *section, *key;
    nlohmann::json value;
  };
  const auto c = GENERATE(Case{"base", "learning_rte", 1e-3}, Case{"base", "batch", 0}, Case{"base", "micro_batch", 3},
                          Case{"model", "kv_heads", 3}, Case{"data", "length", "long"}, Case{"scorer", "top_k", {500}},
                          Case{"scorer", "top_k", nullptr}, Case{"scorer", "margin", "loud"});
  auto recipe = tiny_recipe();
  recipe[c.section][c.key] = c.value;
  try {
    Recipe::parse(recipe, "recipe.json");
    FAIL("no error for " << c.section << "." << c.key);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(c.key) != std::string::npos);
    CHECK(std::string(error.what()).find("recipe.json") != std::string::npos);
  }
}

TEST_CASE("reasoning alone needs no text, and a model no scorer") {
  if (!has_sample()) return test::skip("no sample model");
  const test::TempFolder scratch;
  nlohmann::json recipe = tiny_recipe();
  recipe.erase("scorer");
  recipe["data"] = {{"length", 192}, {"reasoning_share", 1}};
  recipe["base"]["steps"] = 3;
  const Result run = train(recipe, kSamples / "models/kvscope-tiny", scratch / "out");
  CHECK(run.base_losses.size() == 3);
  CHECK(run.result["base"]["heldout_teacher_forced"].contains("reasoning"));
  CHECK_FALSE(fs::exists(scratch / "out/kvpop_scorer.json"));
  recipe["data"]["reasoning_share"] = 0.9;
  CHECK_THROWS_AS(train(recipe, kSamples / "models/kvscope-tiny", scratch / "mixed"), Error);  // no text there
}

TEST_CASE("the shipped recipes of the reasoner's gates can be parsed for it") {
  const auto folder = kSamples / "recipes/reasoner";
  const auto name = GENERATE("kvpop.json", "kvpop-joint.json", "wg-kv.json", "wg-kv-no-window.json", "sp-kv.json",
                             "sp-kv-published.json", "dms.json", "streaming.json");
  const Recipe model = Recipe::parse(read_json(folder / "model.json"), "model.json");
  const Recipe recipe = Recipe::parse(read_json(folder / name), name, &model.model);
  CHECK(recipe.data.reasoning_share == 1);
  CHECK(recipe.gate.has_value() != recipe.scorer.has_value());
}

TEST_CASE("what the papers' tables train can be parsed for its base") {
  const auto tables = kSamples / "recipes/tables";
  const auto name = GENERATE("kvpop-table1", "kvpop-ablations", "spkv-table2", "spkv-table3", "spkv-table4",
                             "spkv-table5", "spkv-table6");
  const nlohmann::json table = read_json(tables / (std::string(name) + ".json"));
  const ModelConfig reasoner = Recipe::parse(read_json(kSamples / "recipes/reasoner/model.json"), "model.json").model;
  ModelConfig smollm2;
  smollm2.max_positions = 8192;
  for (const auto& [entry, what] : table.at("train").items()) {
    CAPTURE(name, entry);
    nlohmann::json json = read_json(tables / what.at("recipe").get<std::string>());
    json.merge_patch(what.value("overrides", nlohmann::json::object()));
    const std::string base = what.value("base", "");
    const ModelConfig* config = base.empty() ? nullptr : base == "smollm2-135m" ? &smollm2 : &reasoner;
    const Recipe recipe = Recipe::parse(json, entry, config);
    if (base.empty()) CHECK(recipe.base);
    if (!base.empty()) CHECK(recipe.gate.has_value() + recipe.scorer.has_value() + recipe.kvzap.has_value() == 1);
  }
}

TEST_CASE("the shipped recipes can be parsed") {
  const auto name = GENERATE("kvscope-tiny.json", "smoke.json", "reasoner/model.json");
  const auto path = kSamples / "recipes" / name;
  const Recipe recipe = Recipe::parse(read_json(path), path.string());
  CHECK(recipe.model.n_heads % recipe.model.n_kv_heads == 0);
  CHECK(recipe.base->length.steps > 0);
}

TEST_CASE("the shipped recipes of palindromes begin with nothing but a gate's section") {
  const auto name = GENERATE("palindrome-full.json", "palindrome-sliding-window.json", "palindrome-sp-kv.json");
  const auto path = kSamples / "recipes" / name;
  const Recipe recipe = Recipe::parse(read_json(path), path.string());
  CHECK(recipe.palindrome->numbers == 16);
  CHECK(recipe.length() == 128);
  CHECK(recipe.gate->all_weights);
  CHECK(recipe.gate->weights == LossWeights{0, 0, 1});
  CHECK_FALSE(recipe.base);
  CHECK_FALSE(recipe.scorer);
}

TEST_CASE("the shipped recipes of the sample model's gates can be parsed for it") {
  const auto name = GENERATE("kvscope-tiny-wg-kv.json", "kvscope-tiny-sp-kv.json", "kvscope-tiny-dms.json");
  const auto path = kSamples / "recipes" / name;
  const ModelConfig base = ModelConfig::load(kSamples / "models/kvscope-tiny");
  const Recipe recipe = Recipe::parse(read_json(path), path.string(), &base);
  CHECK(recipe.data.n_reversals == 2);
  CHECK(recipe.gate);
}

TEST_CASE("the shipped recipes of KVzap can be parsed for their models") {
  const auto name = GENERATE("kvscope-tiny-kvzap.json", "smollm2-kvzap.json");
  const auto path = kSamples / "recipes" / name;
  ModelConfig base = ModelConfig::load(kSamples / "models/kvscope-tiny");
  const Recipe recipe = Recipe::parse(read_json(path), path.string(), &base);
  REQUIRE(recipe.kvzap);
  CHECK(recipe.kvzap->kind() == GateKind::kvzap_mlp);
  CHECK(recipe.length() == recipe.repeat->length);
  CHECK_FALSE(recipe.gate);
  CHECK_FALSE(recipe.base);
}

TEST_CASE("the shipped recipes for SmolLM2 can be parsed for a model of its context") {
  const auto name = GENERATE("smollm2-wg-kv.json", "smollm2-sp-kv.json", "smollm2-dms.json", "smollm2-kvpop.json",
                             "smollm2-kvpop-joint.json", "smollm2-kvpop-through.json", "smollm2-kvpop-pooled.json",
                             "smollm2-kvpop-joint-pooled.json", "smollm2-sp-kv-joint.json",
                             "smollm2-sp-kv-bidirectional.json", "smollm2-streaming.json");
  const auto path = kSamples / "recipes" / name;
  ModelConfig base;
  base.max_positions = 8192;
  const Recipe recipe = Recipe::parse(read_json(path), path.string(), &base);
  CHECK(recipe.text);
  CHECK_FALSE(recipe.base);
  CHECK(recipe.gate.has_value() != recipe.scorer.has_value());
}

TEST_CASE("the learning rate warms up, falls as a cosine and ends at its final share") {
  const OptimizerOptions options{.learning_rate = 2, .warm_up = 10, .final_share = 0.1};
  CHECK(learning_rate(options, 0, 0) == Approx(0.2));
  CHECK(learning_rate(options, 9, 0) == Approx(2));
  CHECK(learning_rate(options, 500, 0.5) == Approx(2 * 0.55));
  CHECK(learning_rate(options, 1000, 1) == Approx(0.2));
  CHECK(phase_progress({.steps = 100, .max_seconds = 10}, 50, 8) == Approx(0.8));
  CHECK(phase_progress({.steps = 100, .max_seconds = 0}, 50, 8) == Approx(0.5));
}
