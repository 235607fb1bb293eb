// Against transformers; make_golden_logits.py made the numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/kernel_limits.h"
#include "kernels/device.h"
#include "tests/engine/small_model.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

namespace kvscope {
namespace {

constexpr int kModels = 28;

const nlohmann::json& golden_models() {
  static const nlohmann::json golden = test::read_golden("tests/engine/golden/logits.json");
  REQUIRE(golden["models"].size() == kModels);
  return golden["models"];
}

ModelConfig config_of(const nlohmann::json& config) {
  const test::TempFolder folder;
  folder.write("config.json", config.dump());
  return ModelConfig::load(folder.path());
}

engine::LoadedModel model_of(const nlohmann::json& golden, const std::string& device, const std::string& dtype) {
  return engine::LoadedModel::random(config_of(golden["config"]), golden["seed"], {device, dtype});
}

using Ids = std::vector<std::int32_t>;

/// Logits after each of golden's positions, each from a prefill of its own.
std::vector<std::vector<float>> prefilled(const engine::LoadedModel& model, const nlohmann::json& golden) {
  const Ids ids = golden["ids"];
  std::vector<std::vector<float>> out;
  for (const int position : golden["positions"]) {
    engine::Generation run(model, test::request({ids.begin(), ids.begin() + position + 1}, "full"));
    run.prefill();
    out.push_back({run.logits().begin(), run.logits().end()});
  }
  return out;
}

/// The same from a prefill of the first token, and then token by token.
std::vector<std::vector<float>> stepped(const engine::LoadedModel& model, const nlohmann::json& golden) {
  const Ids ids = golden["ids"];
  const std::vector<int> positions = golden["positions"];
  std::vector<std::vector<float>> out;
  engine::Generation run(model, test::request({ids[0]}, "full", static_cast<int>(ids.size()) - 1));
  run.prefill();
  for (int position = 0;; ++position) {
    if (position == positions[out.size()]) out.push_back({run.logits().begin(), run.logits().end()});
    if (out.size() == positions.size()) return out;
    run.step_forced(ids[static_cast<std::size_t>(position) + 1]);
  }
}

/// float32 on both sides, sums in other orders: 1e-4 relative is what the issue asks for, about 1e-6 is seen.
void check_logits(const nlohmann::json& golden, const std::string& device) {
  const engine::LoadedModel model = model_of(golden, device, "float32");
  const auto at_once = prefilled(model, golden), one_by_one = stepped(model, golden);
  for (std::size_t i = 0; i < golden["positions"].size(); ++i) {
    const std::vector<float> expected = golden["logits"][i];
    CAPTURE(golden["seed"].get<int>(), golden["config"].dump(), golden["positions"][i].get<int>(), device);
    CHECK(test::relative_difference(at_once[i], expected) < 1e-4);
    CHECK(test::relative_difference(one_by_one[i], expected) < 1e-4);
  }
}

/// Root mean square of the differences over that of golden's logits, as make_golden_logits.py takes it; of positions first
/// ... end - 1 of those that are kept.
double rms_error(const std::vector<std::vector<float>>& logits, const nlohmann::json& golden, std::size_t first,
                 std::size_t end) {
  double difference = 0, scale = 0;
  for (std::size_t i = first; i < end; ++i) {
    const std::vector<float> expected = golden["logits"][i];
    REQUIRE(logits[i].size() == expected.size());
    for (std::size_t j = 0; j < expected.size(); ++j) {
      difference += std::pow(static_cast<double>(logits[i][j]) - expected[j], 2);
      scale += std::pow(static_cast<double>(expected[j]), 2);
    }
  }
  return std::sqrt(difference / scale);
}

double rms_error(const std::vector<std::vector<float>>& logits, const nlohmann::json& golden) {
  return rms_error(logits, golden, 0, logits.size());
}

double median_error(const std::vector<std::vector<float>>& logits, const nlohmann::json& golden) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < logits.size(); ++i) errors.push_back(rms_error(logits, golden, i, i + 1));
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

/// bfloat16 has 8 bits, so both sides err by about 1e-2; twice the error of transformers in bfloat16 is what the issue
/// allows.
void check_bfloat16(const nlohmann::json& golden, const std::string& device) {
  const engine::LoadedModel model = model_of(golden, device, "bfloat16");
  CAPTURE(golden["seed"].get<int>(), golden["config"].dump(), device);
  const double allowed = 2 * golden["bf16_error"].get<double>();
  CHECK(rms_error(prefilled(model, golden), golden) < allowed);
  CHECK(rms_error(stepped(model, golden), golden) < allowed);
}

TEST_CASE("logits of small random models of all three families are those of transformers, prefilled and token by token",
          "[engine][logits]") {
  check_logits(golden_models()[GENERATE(range(0, kModels))], "cpu");
}

const nlohmann::json& golden_local_models() {
  static const nlohmann::json golden = test::read_golden("tests/engine/golden/local_logits.json");
  return golden["models"];
}

TEST_CASE("logits of models with a window on every other layer are those of transformers", "[engine][logits]") {
  const nlohmann::json& golden = golden_local_models()[GENERATE(range(0, 4))];
  CHECK_FALSE(config_of(golden["config"]).windows().empty());
  check_logits(golden, "cpu");
}

TEST_CASE("logits of models with a window on every other layer on CUDA are those of transformers",
          "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const nlohmann::json& golden = golden_local_models()[GENERATE(range(0, 4))];
  check_logits(golden, "cuda");
  check_bfloat16(golden, "cuda");
}

const nlohmann::json& golden_families() {
  static const nlohmann::json golden = test::read_golden("tests/engine/golden/family_logits.json");
  return golden["models"];
}

TEST_CASE("logits of two models of each further family are those of transformers", "[engine][logits][family]") {
  const nlohmann::json& golden = golden_families()[GENERATE(range(0, 12))];
  check_logits(golden, "cpu");
  check_bfloat16(golden, "cpu");
}

TEST_CASE("logits of two models of each further family on CUDA are those of transformers",
          "[engine][logits][family][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const nlohmann::json& golden = golden_families()[GENERATE(range(0, 12))];
  if (devices_of(config_of(golden["config"])) == "cpu") return;  // heads of 256 channels
  check_logits(golden, "cuda");
  check_bfloat16(golden, "cuda");
}

TEST_CASE("OLMo 3 whose layers with a window turn by the scaled rotation too is another model",
          "[engine][logits][family]") {
  nlohmann::json golden = golden_families()[10];
  nlohmann::json& config = golden["config"];
  nlohmann::json yarn = config["rope_scaling"];
  yarn["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  const auto difference = [&](const nlohmann::json& of_local_layers) {
    config["rope_parameters"] = {{"full_attention", yarn}, {"sliding_attention", of_local_layers}};
    return test::relative_difference(prefilled(model_of(golden, "cpu", "float32"), golden).back(),
                                     golden["logits"].back().get<std::vector<float>>());
  };
  CHECK(difference({{"rope_type", "default"}, {"rope_theta", config["rope_theta"]}}) < 1e-4);
  CHECK(difference(yarn) > 1e-3);
}

const nlohmann::json& golden_experts() {
  static const nlohmann::json golden = test::read_golden("tests/engine/golden/expert_logits.json");
  return golden["models"];
}

/// The same by the median of the positions: rounding can send a token to another expert, here and in transformers, and the
/// mean of seven positions is a matter of luck then (make_golden_logits.py).
void check_bfloat16_of_experts(const nlohmann::json& golden, const std::string& device) {
  const engine::LoadedModel model = model_of(golden, device, "bfloat16");
  CAPTURE(golden["seed"].get<int>(), device);
  const double allowed = 2 * golden["bf16_median_error"].get<double>();
  CHECK(median_error(prefilled(model, golden), golden) < allowed);
  CHECK(median_error(stepped(model, golden), golden) < allowed);
}

TEST_CASE("logits of models with experts are those of transformers", "[engine][logits][experts]") {
  const nlohmann::json& golden = golden_experts()[GENERATE(range(0, 5))];
  check_logits(golden, "cpu");
  check_bfloat16_of_experts(golden, "cpu");
}

TEST_CASE("logits of models with experts on CUDA are those of transformers", "[engine][logits][experts][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const nlohmann::json& golden = golden_experts()[GENERATE(range(0, 5))];
  check_logits(golden, "cuda");
  check_bfloat16_of_experts(golden, "cuda");
}

TEST_CASE("logits of small random models of all three families on CUDA are those of transformers",
          "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_logits(golden_models()[GENERATE(range(0, kModels))], "cuda");
}

TEST_CASE("in bfloat16 the logits err at most twice as much as those of transformers in bfloat16", "[engine][logits]") {
  check_bfloat16(golden_models()[GENERATE(range(0, kModels))], "cpu");
}

TEST_CASE("in bfloat16 on CUDA the logits err at most twice as much as those of transformers in bfloat16",
          "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_bfloat16(golden_models()[GENERATE(range(0, kModels))], "cuda");
}

/// golden/sample_logits.json.gz is made anew whenever the sample model is.
void check_sample_logits(const std::string& device) {
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  if (!std::filesystem::exists(sample / "model.safetensors")) return test::skip("the sample model is not there");
  const nlohmann::json golden = test::read_golden("tests/engine/golden/sample_logits.json");
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

/// As a script of samples/models left it in the cache of this machine.
void check_fetched_model(const std::string& name, const std::string& golden_name, const std::string& device) {
  const char *xdg = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::filesystem::path cache =
      xdg && *xdg ? std::filesystem::path(xdg) : std::filesystem::path(home ? home : "") / ".cache";
  const std::filesystem::path folder = cache / "kvscope" / "models" / name;
  if (!std::filesystem::exists(folder / "model.safetensors")) return test::skip((name + " was not fetched").c_str());
  const nlohmann::json golden = test::read_golden("tests/engine/golden/" + golden_name);
  const engine::LoadedModel model = engine::LoadedModel::load(folder, {device, "float32"});
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  if (golden.contains("text")) CHECK(model.tokenizer().encode(golden["text"].get<std::string>()) == ids);
  const int stride = golden["stride"];
  for (std::size_t i = 0; i < golden["positions"].size(); ++i) {
    const int position = golden["positions"][i];
    CAPTURE(position, device);
    engine::Generation run(model, test::request({ids.begin(), ids.begin() + position + 1}, "full"));
    run.prefill();
    std::vector<float> some;
    for (std::size_t id = 0; id < run.logits().size(); id += static_cast<std::size_t>(stride))
      some.push_back(run.logits()[id]);
    CHECK(test::relative_difference(some, golden["logits"][i].get<std::vector<float>>()) < 1e-4);
  }
}

TEST_CASE("logits of SmolLM2 as set-up converts it are those of transformers reading the same GGUF",
          "[engine][logits]") {
  check_fetched_model("smollm2-135m", "smollm2_logits.json", "cpu");
}

TEST_CASE("logits of Gemma 3 270M as set-up converts it are those of transformers reading the same GGUF",
          "[engine][logits]") {
  check_fetched_model("gemma3-270m", "gemma3_logits.json", "cpu");
}

TEST_CASE("logits of Gemma 3 270M as set-up converts it, on CUDA, are those of transformers reading the same GGUF",
          "[engine][logits][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_fetched_model("gemma3-270m", "gemma3_logits.json", "cuda");
}

TEST_CASE("a golden file of another model is noticed, whatever differs", "[engine][logits]") {
  const auto [index, key, value] = GENERATE(table<int, const char*, nlohmann::json>({
      {0, "/rope_theta", 20000.0},
      {0, "/rms_norm_eps", 1e-2},
      {1, "/rope_scaling/factor", 2.0},
      {2, "/rope_scaling/low_freq_factor", 2.0},
      {3, "/rope_scaling/attention_factor", 1.0},
      {8, "/rope_theta", 20000.0},
      {16, "/architectures/0", "Qwen2ForCausalLM"},  // with biases
  }));
  nlohmann::json golden = golden_models()[static_cast<std::size_t>(index)];
  CAPTURE(index, key);
  const auto difference = [&] {
    return test::relative_difference(prefilled(model_of(golden, "cpu", "float32"), golden).back(),
                                     golden["logits"].back().get<std::vector<float>>());
  };
  CHECK(difference() < 1e-4);
  golden["config"][nlohmann::json::json_pointer(key)] = value;
  CHECK(difference() > 1e-3);
}

}  // namespace
}  // namespace kvscope
