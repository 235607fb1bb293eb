// Trainings of a base with its gate or scorer, whole and small: what they leave, what stays as it was, and what a recipe must not ask.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/weights/lora_file.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/gate_module.h"
#include "tests/engine/train_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

using test::kModel, test::kText;

nlohmann::json gate_recipe(const std::string& method, int steps = 4) {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 64}, {"facts_share", 0}}},
          {"gate",
           {{"method", method},
            {"window", 16},
            {"batch", 1},
            {"log_every", 1},
            {"warm_up", 0},
            {"adapter", {{"rank", 2}, {"learning_rate", 1e-2}}},
            {"stages", {{{"steps", steps}}}}}}};
}

nlohmann::json scorer_recipe() {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
          {"scorer",
           {{"steps", 4},
            {"batch", 1},
            {"window", 8},
            {"top_k", {16}},
            {"queries", 8},
            {"log_every", 1},
            {"warm_up", 0},
            {"heldout_sequences", 1},
            {"adapter", {{"rank", 2}, {"learning_rate", 1e-2}}}}}};
}

std::vector<double> losses_of(const nlohmann::json& recipe, const fs::path& output) {
  std::vector<double> losses;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) { losses.push_back(row["loss_output"]); };
  train_job({{"recipe", recipe},
             {"base", kModel.string()},
             {"data", kText.string()},
             {"output", output.string()},
             {"device", "cpu"},
             {"threads", 1}},
            context);
  return losses;
}

/// Of the matrices B of an adapter's file: 0 where nothing was learnt.
bool has_learnt(const fs::path& folder) {
  const LoraFile adapter = LoraFile::open(folder);
  for (const auto& [name, pair] : adapter.pairs()) {
    std::vector<std::byte> bytes(pair.b->end - pair.b->begin);
    adapter.file().read(*pair.b, bytes);
    for (const std::byte byte : bytes) {
      if (byte != std::byte{0}) return true;
    }
  }
  return false;
}

/// A model that begins with the recipe. Two positions of a list, and none of the text between is in the loss.
nlohmann::json nothing_recipe(const std::string& method, int steps = 1) {
  return {{"name", "test"},
          {"seed", 3},
          {"model",
           {{"layers", 2},
            {"hidden", 16},
            {"heads", 2},
            {"kv_heads", 1},
            {"head_dim", 8},
            {"ffn", 16},
            {"vocabulary", 576}}},
          {"data", {{"kind", "palindrome"}, {"numbers", 3}, {"length", 75}}},
          {"gate",
           {{"method", method},
            {"window", 16},
            {"hidden", 4},
            {"bias", 0},
            {"batch", 2},
            {"log_every", 1},
            {"warm_up", 0},
            {"learning_rate", 0.1},
            {"weight_decay", 0},
            {"weight_text", 0},
            {"weight_statement", 0},
            {"all_weights", true},
            {"stages", {{{"steps", steps}}}}}}};
}

std::vector<double> from_nothing(const nlohmann::json& recipe, const fs::path& output) {
  std::vector<double> losses;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) { losses.push_back(row["loss_output"]); };
  train_job({{"recipe", recipe},
             {"data", test::in_source("samples/recipes/palindrome")},
             {"output", output.string()},
             {"device", "cpu"},
             {"threads", 1}},
            context);
  return losses;
}

std::string refusal(const nlohmann::json& recipe) {
  const test::TempFolder scratch;
  return test::error_of([&] { losses_of(recipe, scratch / "out"); });
}

}  // namespace

TEST_CASE("a joint training leaves the gate and the adapter that go together, in one folder") {
  const test::TempFolder scratch;
  const std::string method = GENERATE("sp-kv", "wg-kv", "dms");
  CAPTURE(method);
  losses_of(gate_recipe(method), scratch / "out");
  const fs::path folder = scratch / "out" / (method + "-joint");
  CHECK(load_gate(folder, ModelConfig::load(kModel)).config.window == 16);
  CHECK(LoraFile::open(folder).rank() == 2);
  CHECK(has_learnt(folder));
}

TEST_CASE("a base trained under the mask of sinks and window, or dense as a control, is an adapter alone") {
  const test::TempFolder scratch;
  const std::string method = GENERATE("streaming", "full");
  CAPTURE(method);
  const std::vector<double> losses = losses_of(gate_recipe(method), scratch / "out");
  const fs::path folder = scratch / "out" / (method + "-joint");
  CHECK(losses.front() > 0);  // the mask hides something, the text is not known
  CHECK(has_learnt(folder));
  CHECK_FALSE(gate_format(folder).has_value());
}

TEST_CASE("while gates are hard the predictor stays as it is, and the base learns") {
  const test::TempFolder scratch;
  nlohmann::json recipe = gate_recipe("sp-kv");
  recipe["gate"].update({{"hard_share", 1.0}, {"hidden", 4}});
  losses_of(recipe, scratch / "out");
  const fs::path folder = scratch / "out/sp-kv-joint";
  GateModule untouched(GateKind::sp_kv, 4, ModelConfig::load(kModel), at::kCPU);
  untouched.initialise(3, 5);
  untouched.save(scratch / "untouched", load_gate(folder).config, "");
  CHECK(load_gate(folder).hash == load_gate(scratch / "untouched").hash);
  CHECK(has_learnt(folder));

  recipe["gate"]["hard_share"] = 0.5;
  losses_of(recipe, scratch / "half");
  CHECK(load_gate(scratch / "half/sp-kv-joint").hash != load_gate(scratch / "untouched").hash);
}

TEST_CASE("gates that are drawn cost more than soft ones that are open, and learn all the same") {
  const test::TempFolder scratch;
  nlohmann::json recipe = gate_recipe("sp-kv", 1);
  const double soft = losses_of(recipe, scratch / "soft").front();
  recipe["gate"].update({{"sampled", true}, {"least_probability", 0.5}});  // every gate is the toss of a coin
  const double drawn = losses_of(recipe, scratch / "drawn").front();
  CHECK(drawn > soft);
  GateModule untouched(GateKind::sp_kv, 128, ModelConfig::load(kModel), at::kCPU);
  untouched.initialise(3, 5);
  untouched.save(scratch / "untouched", load_gate(scratch / "drawn/sp-kv-joint").config, "");
  CHECK(load_gate(scratch / "drawn/sp-kv-joint").hash != load_gate(scratch / "untouched").hash);

  // Sinks are drawn from nothing: where all tokens are, nothing is hidden.
  recipe["gate"]["sinks"] = 64;
  nlohmann::json dense = gate_recipe("full", 1);
  CHECK(losses_of(recipe, scratch / "sinks").front() ==
        Approx(losses_of(dense, scratch / "dense").front()).epsilon(1e-5));
}

TEST_CASE("Algorithm 1 leaves scorer and adapter, and what the cache loses costs something") {
  const test::TempFolder scratch;
  nlohmann::json recipe = scorer_recipe();
  recipe["scorer"]["steps"] = 8;
  const std::vector<double> losses = losses_of(recipe, scratch / "out");
  const fs::path folder = scratch / "out/kvpop-joint-w8";
  CHECK(load_gate(folder, ModelConfig::load(kModel)).config.kind == GateKind::kvpop_mlstm);
  CHECK(has_learnt(folder));
  CHECK(losses.size() == 8);
  CHECK(losses.front() > 0);
}

TEST_CASE("Algorithm 1 with all weights leaves one folder, the model and its scorer, and the base's files beside") {
  const test::TempFolder scratch;
  nlohmann::json recipe = scorer_recipe();
  recipe["scorer"].erase("adapter");
  recipe["scorer"].update({{"all_weights", {{"learning_rate", 1e-3}}}, {"kl_weight", 0.1}, {"steps", 1}});
  losses_of(recipe, scratch / "out");
  const fs::path folder = scratch / "out/kvpop-joint-all-w8";
  CHECK(load_gate(folder, ModelConfig::load(folder)).config.kind == GateKind::kvpop_mlstm);
  CHECK(read_file(folder / "tokenizer.json", 1 << 24) == read_file(kModel / "tokenizer.json", 1 << 24));
  DecoderModule before(ModelConfig::load(kModel), 8, at::kCPU, at::kFloat, false), after(before);
  after = DecoderModule(ModelConfig::load(folder), 8, at::kCPU, at::kFloat, false);
  read_model(kModel, before), read_model(folder, after);
  const at::Tensor change = (after.parameters().masters() - before.parameters().masters()).abs();
  CHECK(change.max().item<double>() > 5e-4);
  CHECK(change.max().item<double>() < 2e-2);  // one step, and bfloat16 of the largest weights
}

TEST_CASE("one joint step from nothing changes every tensor of the model and of its gate, and the folder is both") {
  const test::TempFolder scratch;
  const nlohmann::json recipe = nothing_recipe("sp-kv");
  const std::vector<double> losses = from_nothing(recipe, scratch / "out");
  CHECK(losses.front() == Approx(std::log(576.0)).margin(0.5));  // of a model that knows nothing
  const fs::path folder = scratch / "out/sp-kv-joint";
  const ModelConfig config = ModelConfig::load(folder);
  CHECK(config.n_layers == 2);
  CHECK(config.max_positions == 75);
  DecoderModule before(config, 75, at::kCPU, at::kFloat, true), after(config, 75, at::kCPU, at::kFloat, true);
  before.initialise(3);
  read_model(folder, after);
  for (const auto& spec : before.parameters().specs()) {
    CAPTURE(spec.name);
    CHECK_FALSE(at::allclose(before.parameters().master(spec.name), after.parameters().master(spec.name), 1e-2, 1e-2));
  }
  GateModule gate(GateKind::sp_kv, 4, config, at::kCPU);
  gate.initialise(3, /*bias=*/0);
  const GateFile found = load_gate(folder, config);
  for (const auto& spec : gate.parameters().specs()) {
    CAPTURE(spec.name);
    CHECK(found.tensors.at(spec.name).values !=
          gate_tensor(gate.parameters().master(spec.name).to(at::kBFloat16)).values);
  }
}

TEST_CASE("a window that is as long as the text is dense attention, and a shorter one is not") {
  const test::TempFolder scratch;
  nlohmann::json window = nothing_recipe("sliding-window");
  const double dense = from_nothing(nothing_recipe("full"), scratch / "full").front();
  CHECK(from_nothing(window, scratch / "short").front() != dense);
  window["gate"]["window"] = 75;
  CHECK(from_nothing(window, scratch / "long").front() == dense);
  CHECK_FALSE(gate_format(scratch / "long/sliding-window-joint").has_value());
}

TEST_CASE("where answers alone are weighed, nothing else is learnt from") {
  const test::TempFolder scratch;
  nlohmann::json recipe = nothing_recipe("full", 60);
  recipe["gate"]["learning_rate"] = 1e-2;
  recipe["data"] = {{"kind", "palindrome"}, {"numbers", 1}, {"length", 75}};
  const std::vector<double> losses = from_nothing(recipe, scratch / "out");
  CHECK(losses.back() < 2);  // a blank, one of 100 numbers, a full stop, a line end: log(100) / 4 where nothing is read
  recipe["gate"].update({{"weight_answer", 0}, {"weight_text", 1}});  // the line end behind
  CHECK(from_nothing(recipe, scratch / "text").back() < 0.1);
}

TEST_CASE("with a base that is there all its weights are trained, and the rest of its folder is copied") {
  const test::TempFolder scratch;
  nlohmann::json recipe = gate_recipe("sp-kv", 1);
  recipe["gate"].erase("adapter");
  recipe["gate"].update({{"all_weights", {{"learning_rate", 1e-2}}}, {"hidden", 4}});
  losses_of(recipe, scratch / "out");
  const fs::path folder = scratch / "out/sp-kv-joint";
  for (const char* name : {"config.json", "tokenizer.json"}) {
    CHECK(read_file(folder / name, 1 << 24) == read_file(kModel / name, 1 << 24));
  }
  CHECK(load_gate(folder, ModelConfig::load(folder)).config.n_hidden == 4);
  DecoderModule before(ModelConfig::load(kModel), 8, at::kCPU, at::kFloat, false), after = [&] {
    DecoderModule model(ModelConfig::load(folder), 8, at::kCPU, at::kFloat, false);
    read_model(folder, model);
    return model;
  }();
  read_model(kModel, before);
  const at::Tensor change = (after.parameters().masters() - before.parameters().masters()).abs();
  CHECK(change.max().item<double>() > 5e-3);
  CHECK(change.max().item<double>() < 5e-2);  // one step from where the base was
}

TEST_CASE("what a joint recipe must not ask is refused by its key") {
  nlohmann::json wrong = gate_recipe("streaming");
  wrong["gate"].erase("adapter");
  CHECK(refusal(wrong).find("gate.adapter: none; expected one, or all_weights: streaming has no gate to train") !=
        std::string::npos);
  wrong = gate_recipe("sp-kv");
  wrong["gate"]["adapter"]["targets"] = {"q_proj", "head"};
  CHECK(refusal(wrong).find("adapter.targets: \"head\"; expected some of q_proj, k_proj") != std::string::npos);
  wrong = gate_recipe("sp-kv");
  wrong["gate"]["adapter"]["ranks"] = 3;
  CHECK(refusal(wrong).find("gate.adapter.ranks") != std::string::npos);
  wrong = gate_recipe("sp-kv");
  wrong["gate"].erase("adapter");
  wrong["gate"]["hard_share"] = 0.5;
  CHECK(refusal(wrong).find("gate.hard_share: no adapter") != std::string::npos);
  wrong = gate_recipe("sp-kv");
  wrong["gate"]["all_weights"] = true;
  CHECK(refusal(wrong).find("gate.all_weights: an adapter as well") != std::string::npos);
  wrong["gate"].erase("adapter");
  wrong["gate"]["all_weights"] = {{"rank", 3}};
  CHECK(refusal(wrong).find("gate.all_weights.rank: an unknown key") != std::string::npos);
  wrong["gate"].update({{"all_weights", true}, {"method", "wg-kv"}});
  CHECK(refusal(wrong).find("gate.all_weights: method wg-kv; expected an adapter") != std::string::npos);
  wrong = scorer_recipe();
  wrong["scorer"]["all_weights"] = true;
  CHECK(refusal(wrong).find("scorer.all_weights: an adapter as well") != std::string::npos);
  wrong["scorer"].erase("adapter"), wrong["scorer"].erase("all_weights");
  wrong["scorer"]["kl_weight"] = 0.1;
  CHECK(refusal(wrong).find("scorer.kl_weight: no adapter or all_weights") != std::string::npos);
  wrong = gate_recipe("wg-kv");
  wrong["gate"]["weight_answer"] = 8;
  CHECK(refusal(wrong).find("weight_answer: method wg-kv; expected none") != std::string::npos);
  wrong = nothing_recipe("sp-kv");
  wrong["scorer"] = nlohmann::json::object();
  CHECK(test::error_of([&] { from_nothing(wrong, "unused"); }).find("scorer: a section; expected none") !=
        std::string::npos);
  wrong = nothing_recipe("sp-kv");
  wrong["data"]["length"] = 60;
  CHECK(test::error_of([&] {
          const test::TempFolder scratch;
          from_nothing(wrong, scratch / "out");
        }).find("a palindrome of 3 numbers: a length of 60 tokens; expected at least") != std::string::npos);
  wrong = scorer_recipe();
  wrong["scorer"].erase("adapter");
  wrong["scorer"]["lse"] = "sparse";
  CHECK(refusal(wrong).find("scorer.lse: no adapter") != std::string::npos);
}
