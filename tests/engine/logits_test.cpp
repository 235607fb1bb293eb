// Against transformers; make_golden_logits.py made the numbers.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/json_file.h"
#include "kernels/device.h"
#include "tests/engine/small_model.h"
#include "tests/support/skip.h"

namespace kvscope {
namespace {

const nlohmann::json& golden_models() {
  static const nlohmann::json golden =
      read_json(KVSCOPE_SOURCE_DIR "/tests/engine/golden/logits.json", {.max_bytes = 16u << 20});
  return golden["models"];
}

ModelConfig config_of(const nlohmann::json& model) {
  ModelConfig config;
  config.architecture = "Qwen3ForCausalLM";
  config.vocab_size = model["vocab_size"];
  config.hidden_size = model["hidden_size"];
  config.intermediate_size = model["intermediate_size"];
  config.n_layers = model["n_layers"];
  config.n_heads = model["n_heads"];
  config.n_kv_heads = model["n_kv_heads"];
  config.head_dim = model["head_dim"];
  config.tie_word_embeddings = model["tie_word_embeddings"];
  config.rope_theta = model["rope_theta"];
  config.max_positions = 4096;
  return config;
}

/// float32 on both sides, sums in other orders: 1e-4 relative is what the issue asks for, about 1e-6 is seen.
void check_logits(const nlohmann::json& golden, const std::string& device) {
  const engine::LoadedModel model = engine::LoadedModel::random(config_of(golden), golden["seed"], {device, "float32"});
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  for (std::size_t i = 0; i < golden["positions"].size(); ++i) {
    const int position = golden["positions"][i];
    const auto expected = golden["logits"][i].get<std::vector<float>>();
    engine::Generation run(model, test::request({ids.begin(), ids.begin() + position + 1}, "full"));
    run.prefill();
    CAPTURE(golden["seed"].get<int>(), position, device);
    CHECK(test::relative_difference(run.logits(), expected) < 1e-4);
  }
}

TEST_CASE("logits of eight small random Qwen3 models are those of transformers", "[engine][logits]") {
  check_logits(golden_models()[GENERATE(0, 1, 2, 3, 4, 5, 6, 7)], "cpu");
}

TEST_CASE("logits of eight small random Qwen3 models on CUDA are those of transformers", "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_logits(golden_models()[GENERATE(0, 1, 2, 3, 4, 5, 6, 7)], "cuda");
}

/// golden/sample_logits.json is made anew whenever the sample model is.
void check_sample_logits(const std::string& device) {
  const std::filesystem::path sample = KVSCOPE_SOURCE_DIR "/samples/models/kvscope-tiny";
  if (!std::filesystem::exists(sample / "model.safetensors")) return test::skip("the sample model is not there");
  const nlohmann::json golden = read_json(KVSCOPE_SOURCE_DIR "/tests/engine/golden/sample_logits.json");
  const engine::LoadedModel model = engine::LoadedModel::load(sample, {device, "float32"});
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  CHECK(model.tokenizer().encode(golden["text"].get<std::string>()) == ids);
  INFO("if the sample model was trained anew: python3 tests/engine/make_sample_golden.py");
  for (std::size_t i = 0; i < golden["positions"].size(); ++i) {
    const int position = golden["positions"][i];
    CAPTURE(position, device);
    engine::Generation run(model, test::request({ids.begin(), ids.begin() + position + 1}, "full"));
    run.prefill();
    CHECK(test::relative_difference(run.logits(), golden["logits"][i].get<std::vector<float>>()) < 1e-4);
  }
}

TEST_CASE("logits of the sample model are those of transformers", "[engine][logits]") { check_sample_logits("cpu"); }

TEST_CASE("logits of the sample model on CUDA are those of transformers", "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_sample_logits("cuda");
}

TEST_CASE("a golden file of another model is noticed", "[engine][logits]") {
  const nlohmann::json& golden = golden_models()[0];
  ModelConfig config = config_of(golden);
  config.rope_theta *= 2;
  const engine::LoadedModel model = engine::LoadedModel::random(config, golden["seed"], {"cpu", "float32"});
  engine::Generation run(model, test::request(golden["ids"].get<std::vector<std::int32_t>>(), "full"));
  run.prefill();
  CHECK(test::relative_difference(run.logits(), golden["logits"].back().get<std::vector<float>>()) > 1e-3);
}

}  // namespace
}  // namespace kvscope
