// LoRA adapters in PEFT's files: what the engine makes of them against PEFT itself and against matrices that were added by hand, and what it
// refuses.

#include <algorithm>
#include <fstream>

#include "engine/core/files/weights/lora_file.h"
#include "engine/decode/generation.h"
#include "engine/jobs/train/lora_adapter.h"
#include "engine/model/weights.h"
#include "engine/scorer/loaded_model.h"
#include "tests/engine/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using engine::LoadedModel;

/// By the formula of test::formula_tensor(), as make_golden_lora.py has it.
std::vector<TensorToWrite> lora_tensors(const nlohmann::json& config, std::vector<std::vector<float>>& alive) {
  const int rank = config["r"];
  std::vector<TensorToWrite> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    alive.push_back(test::formula_tensor(name, shape, 5));
    tensors.push_back({name, TensorType::f32, std::move(shape), std::as_bytes(std::span(alive.back()))});
  };
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [part, outputs, inputs] :
         {std::tuple("self_attn.q_proj", 64, 64), std::tuple("self_attn.v_proj", 32, 64),
          std::tuple("self_attn.o_proj", 64, 64), std::tuple("mlp.down_proj", 64, 96)}) {
      const std::string module = "base_model.model.model.layers." + std::to_string(layer) + "." + part;
      add(module + ".lora_A.weight", {rank, inputs});
      add(module + ".lora_B.weight", {outputs, rank});
    }
  }
  return tensors;
}

nlohmann::json adapter_config() {
  return {{"peft_type", "LORA"},
          {"r", 4},
          {"lora_alpha", 6},
          {"bias", "none"},
          {"target_modules", {"q_proj", "v_proj", "o_proj", "down_proj"}}};
}

void write_adapter(const fs::path& folder, const nlohmann::json& config) {
  fs::create_directories(folder);
  std::vector<std::vector<float>> alive;
  alive.reserve(64);
  write_safetensors(folder / "adapter_model.safetensors", lora_tensors(config, alive));
  std::ofstream(folder / "adapter_config.json") << config.dump();
}

nlohmann::json model_config() {
  nlohmann::json config = test::small_model_config("LlamaForCausalLM");
  config["hidden_size"] = 64;
  config["intermediate_size"] = 96;
  return config;
}

void check_refused(const std::string& line, const std::vector<std::string>& words) {
  CAPTURE(line);
  CHECK(line != "no error");
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(line.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("an adapter is added to the weights while they are read: they are W + scale B A, and the others stay",
          "[engine][lora]") {
  const test::TempFolder folder;
  test::write_model_folder(folder / "model", model_config(), 3);
  nlohmann::json config = adapter_config();
  const bool rs = GENERATE(false, true);
  config["use_rslora"] = rs;
  write_adapter(folder / "adapter", config);
  const LoadedModel plain = LoadedModel::load(folder / "model", {.device = "cpu", .dtype = "float32"});
  const LoadedModel adapted = LoadedModel::load(
      folder / "model", {.device = "cpu", .dtype = "float32", .gates = {(folder / "adapter").string()}});
  const double scale = rs ? 6 / std::sqrt(4.0) : 6 / 4.0;
  const auto change = [&](const std::string& part, int outputs, int inputs) {
    const std::string module = "base_model.model.model.layers.1." + part;
    const auto tensor = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
      const std::vector<float> values = test::formula_tensor(module + name, {rows, columns}, 5);
      return at::tensor(values).view({rows, columns});
    };
    return scale * at::matmul(tensor(".lora_B.weight", outputs, 4), tensor(".lora_A.weight", 4, inputs));
  };
  const engine::LayerWeights &a = plain.weights().layers[1], &b = adapted.weights().layers[1];
  const at::Tensor qkv = b.qkv_proj - a.qkv_proj;  // q 64 rows, k 32, v 32
  CHECK((qkv.narrow(0, 0, 64) - change("self_attn.q_proj", 64, 64)).abs().max().item<float>() < 1e-5);
  CHECK(qkv.narrow(0, 64, 32).abs().max().item<float>() == 0);
  CHECK((qkv.narrow(0, 96, 32) - change("self_attn.v_proj", 32, 64)).abs().max().item<float>() < 1e-5);
  CHECK((b.o_proj - a.o_proj - change("self_attn.o_proj", 64, 64)).abs().max().item<float>() < 1e-5);
  CHECK((b.down - a.down - change("mlp.down_proj", 64, 96)).abs().max().item<float>() < 1e-5);
  CHECK(at::equal(a.gate_up, b.gate_up));
  CHECK(at::equal(plain.weights().embed, adapted.weights().embed));

  CHECK(adapted.info().name == "model + adapter");
  CHECK(adapted.info().weights_hash != plain.info().weights_hash);
}

TEST_CASE("logits of a model with an adapter are those of PEFT, whose files it reads", "[engine][lora]") {
  const nlohmann::json golden = test::read_golden("tests/engine/golden/lora.json");
  for (const nlohmann::json& expected : golden["adapters"]) {
    const test::TempFolder folder;
    test::write_model_folder(folder / "model", golden["config"], golden["seed"]);
    fs::create_directories(folder / "adapter");
    std::vector<std::vector<float>> alive;
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, shape] : expected["tensors"].items()) {
      alive.push_back(test::formula_tensor(name, shape, golden["seed"]));
      tensors.push_back({name, TensorType::f32, shape, {}});
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(alive[i]));
    write_safetensors(folder / "adapter/adapter_model.safetensors", tensors);
    std::ofstream(folder / "adapter/adapter_config.json") << expected["adapter_config"].dump();

    const LoadedModel model = LoadedModel::load(
        folder / "model", {.device = "cpu", .dtype = "float32", .gates = {(folder / "adapter").string()}});
    engine::Generation run(model, test::request(golden["ids"], "full"));
    run.prefill();
    const std::vector<float> logits = expected["logits"];  // of every fourth token
    std::vector<float> found;
    for (std::size_t id = 0; id < run.logits().size(); id += 4) found.push_back(run.logits()[id]);
    CAPTURE(expected["adapter_config"].dump());
    // float32 on both sides; W + BA first, or W x + B A x, is another rounding.
    CHECK(test::relative_difference(found, logits) < 1e-4);
  }
}

TEST_CASE("what is more than a sum, damaged or of another model is refused with the key or tensor that says so",
          "[engine][lora]") {
  const test::TempFolder folder;
  test::write_model_folder(folder / "model", model_config(), 3);
  const auto load = [&](std::vector<std::string> gates) {
    LoadedModel::load(folder / "model", {.device = "cpu", .dtype = "float32", .gates = std::move(gates)});
  };
  const auto refused = [&](const nlohmann::json& config, const std::vector<std::string>& words) {
    fs::remove_all(folder / "adapter");
    write_adapter(folder / "adapter", config);
    CAPTURE(config.dump());
    check_refused(test::error_of([&] { load({(folder / "adapter").string()}); }), words);
  };
  const auto with = [](const char* key, const nlohmann::json& value) {
    nlohmann::json config = adapter_config();
    config[key] = value;
    return config;
  };
  refused(with("use_dora", true), {"adapter_config.json", "use_dora"});
  refused(with("peft_type", "IA3"), {"peft_type", "LORA"});
  refused(with("bias", "all"), {"bias", "none"});
  refused(with("modules_to_save", {"lm_head"}), {"modules_to_save"});
  refused(with("rank_pattern", {{"q_proj", 8}}), {"q_proj", "another rank"});
  refused(with("init_lora_weights", "pissa"), {"init_lora_weights", "pissa", "convert"});
  refused(with("alora_invocation_tokens", {5}), {"alora_invocation_tokens"});
  refused(with("lora_alpha", "six"), {"lora_alpha"});

  write_adapter(folder / "other", with("r", 4));
  std::ofstream(folder / "other/adapter_config.json") << with("r", 5).dump();
  check_refused(test::error_of([&] { load({(folder / "other").string()}); }), {"lora_A", "another rank"});

  nlohmann::json narrow = model_config();
  narrow["intermediate_size"] = 80;
  test::write_model_folder(folder / "narrow", narrow, 3);
  write_adapter(folder / "good", adapter_config());
  check_refused(test::error_of([&] {
                  LoadedModel::load(folder / "narrow", {.device = "cpu", .gates = {(folder / "good").string()}});
                }),
                {"down_proj", "another model"});
  nlohmann::json shallow = model_config();
  shallow["num_hidden_layers"] = 1;
  test::write_model_folder(folder / "shallow", shallow, 3);
  check_refused(test::error_of([&] {
                  LoadedModel::load(folder / "shallow", {.device = "cpu", .gates = {(folder / "good").string()}});
                }),
                {"layers.1", "another model"});

  fs::copy(folder / "good", folder / "twin", fs::copy_options::recursive);
  check_refused(test::error_of([&] {
                  load({(folder / "good").string(), (folder / "twin").string()});
                }),
                {"adapter", "one"});
  fs::resize_file(folder / "twin/adapter_model.safetensors", 300);
  check_refused(test::error_of([&] { load({(folder / "twin").string()}); }), {"adapter_model.safetensors"});
}

TEST_CASE("values that make no weights are blamed on the adapter's tensor, not on the model", "[engine][lora]") {
  const test::TempFolder folder;
  test::write_model_folder(folder / "model", model_config(), 3);
  write_adapter(folder / "adapter", adapter_config());
  const auto with_values = [&](float value) {
    std::vector<std::vector<float>> alive;
    alive.reserve(64);
    std::vector<TensorToWrite> tensors = lora_tensors(adapter_config(), alive);
    for (std::vector<float>& values : alive) std::ranges::fill(values, value);
    write_safetensors(folder / "adapter/adapter_model.safetensors", tensors);
    return test::error_of([&] {
      LoadedModel::load(folder / "model",
                        {.device = "cpu", .dtype = "float32", .gates = {(folder / "adapter").string()}});
    });
  };
  for (const float value : {std::nanf(""), 1e30f}) {
    check_refused(with_values(value), {"adapter_model.safetensors", "lora_", "the adapter may be damaged"});
  }
  check_refused(with_values(6e4f), {"adapter_model.safetensors", "q_proj", "a change of its weights"});  // each is fine
}

TEST_CASE("an adapter that the trainer saves is the one that the engine reads", "[engine][lora]") {
  const test::TempFolder folder;
  test::write_model_folder(folder / "model", model_config(), 3);
  const ModelConfig config = ModelConfig::load(folder / "model");
  engine::LoraAdapter adapter({.rank = 4, .alpha = 8, .targets = {"k_proj", "up_proj"}}, config, at::kCPU, at::kFloat);
  adapter.initialise(1);
  adapter.parameters().masters().uniform_(-0.1, 0.1);
  adapter.save(folder / "trained", "model");
  const LoadedModel plain = LoadedModel::load(folder / "model", {.device = "cpu", .dtype = "float32"});
  const LoadedModel adapted = LoadedModel::load(
      folder / "model", {.device = "cpu", .dtype = "float32", .gates = {(folder / "trained").string()}});
  const auto pair = [&](const char* half) {
    return adapter.parameters()
        .master(std::string("base_model.model.model.layers.0.self_attn.k_proj.lora_") + half + ".weight")
        .to(at::kBFloat16)
        .to(at::kFloat);
  };
  const at::Tensor change = adapted.weights().layers[0].qkv_proj - plain.weights().layers[0].qkv_proj;
  CHECK((change.narrow(0, 64, 32) - 2 * at::matmul(pair("B"), pair("A"))).abs().max().item<float>() < 1e-6);
  CHECK(change.narrow(0, 0, 64).abs().max().item<float>() == 0);
}

}  // namespace kvscope
