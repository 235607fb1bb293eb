// Adapters that are refused, each with the key or the tensor that says why and what to do.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/core/files/weights/lora_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace kvscope {
namespace {

constexpr char kQ0[] = "base_model.model.model.layers.0.self_attn.q_proj";

/// One matrix [6, 4] of rank 2, all 0.5 but for the first value of A.
void write_adapter(const test::TempFolder& folder, const nlohmann::json& changes, float first = 0.5f,
                   const std::string& more = "") {
  nlohmann::json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 3}, {"target_modules", {"q_proj"}}};
  if (changes.is_object()) config.update(changes);  // {} is null
  folder.write("adapter_config.json", config.dump());
  std::vector<float> a(8, 0.5f), b(12, 0.5f);
  a[0] = first;
  std::vector<TensorToWrite> tensors = {
      {std::string(kQ0) + ".lora_A.weight", TensorType::f32, {2, 4}, std::as_bytes(std::span(a))},
      {std::string(kQ0) + ".lora_B.weight", TensorType::f32, {6, 2}, std::as_bytes(std::span(b))}};
  if (!more.empty()) tensors.push_back({more, TensorType::f32, {6, 2}, std::as_bytes(std::span(b))});
  write_safetensors(folder / "adapter_model.safetensors", tensors);
}

std::string refusal(const nlohmann::json& changes, const std::string& more = "") {
  const test::TempFolder folder;
  write_adapter(folder, changes, 0.5f, more);
  return test::error_of([&] { LoraFile::open(folder.path()); });
}

void check_has(const std::string& line, const std::vector<std::string>& words) {
  CAPTURE(line);
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(line.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("an adapter that takes the base apart is refused with the way to convert it", "[files][adapter]") {
  for (const char* init : {"pissa", "pissa_niter_16", "olora", "corda", "lora_ga"}) {
    check_has(refusal({{"init_lora_weights", init}}),
              {"adapter_config.json", "init_lora_weights", init, "path_initial_model_for_weight_conversion"});
  }
  check_has(refusal({{"init_lora_weights", "loftq"}}), {"init_lora_weights", "merge_and_unload"});
  check_has(refusal({{"alora_invocation_tokens", {5}}}), {"alora_invocation_tokens", "expected null"});
  check_has(refusal({{"arrow_config", nlohmann::json::object()}}), {"arrow_config"});
  for (const char* init : {"gaussian", "orthogonal", "eva"})
    CHECK(refusal({{"init_lora_weights", init}}) == "no error");
}

TEST_CASE("a key that is not known is refused if it is set, and passes if it is not", "[files][adapter]") {
  check_has(refusal({{"use_something_new", true}}), {"use_something_new: true", "hint"});
  check_has(refusal({{"new_config", {{"a", 1}}}}), {"new_config"});
  for (const nlohmann::json& off :
       {nlohmann::json(), nlohmann::json(false), nlohmann::json::array(), nlohmann::json::object(), nlohmann::json("")})
    CHECK(refusal({{"something_new", off}}) == "no error");
}

TEST_CASE("half an adapter is one, and is refused by the file that is missing", "[files][adapter]") {
  for (const char* lost : {"adapter_config.json", "adapter_model.safetensors"}) {
    const test::TempFolder folder;
    CHECK_FALSE(LoraFile::is_there(folder.path()));
    write_adapter(folder, {});
    std::filesystem::remove(folder / lost);
    CHECK(LoraFile::is_there(folder.path()));
    check_has(test::error_of([&] { LoraFile::open(folder.path()); }), {lost});
  }
}

TEST_CASE("a tensor that the configuration does not explain is refused by its name", "[files][adapter]") {
  const std::string q = kQ0;
  for (const std::string& name :
       {q + ".lora_magnitude_vector", q + ".lora_B.bias", q + ".base_layer.weight", q + ".lora_A.other.weight",
        std::string("base_model.model.lm_head.modules_to_save.weight"),
        std::string("base_model.model.model.embed_tokens.lora_embedding_A"), std::string("model.norm.weight"),
        std::string("base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"),
        std::string("base_model.model.vision.layers.0.self_attn.q_proj.lora_B.weight")})
    check_has(refusal({}, name), {"adapter_model.safetensors", name});
}

TEST_CASE("a value that is not finite, or larger than weights are, is blamed on the adapter's tensor",
          "[files][adapter]") {
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity(), -1e30f, 1e30f, 7e4f}) {
    const test::TempFolder folder;
    write_adapter(folder, {}, odd);
    check_has(test::error_of([&] { LoraFile::open(folder.path()).check_values(); }),
              {"adapter_model.safetensors", std::string(kQ0) + ".lora_A.weight", "the adapter may be damaged"});
  }
  const test::TempFolder folder;
  write_adapter(folder, {}, 6e4f);
  LoraFile::open(folder.path()).check_values();
}

TEST_CASE("a pattern of modules that Python may read otherwise, or that never ends, is refused", "[files][adapter]") {
  for (const char* pattern : {"(?i).*Q_PROJ", "(?P<x>.*)q_proj", ".*(?<=self_attn.)q_proj", "(.)\\1.*", ".*+q_proj",
                              ".**q_proj", "[[a]q].*", "\\Z.*", ".*(q_proj", "((.{900}){900}){900}"}) {
    CAPTURE(pattern);
    check_has(refusal({{"target_modules", pattern}}), {"target_modules", "hint"});
  }
  CHECK(refusal({{"target_modules", "(.*.*.*.*)*q_proj"}}) == "no error");  // in an instant
  CHECK(refusal({{"rank_pattern", {{"q_proj", 2}}}, {"r", 8}}) == "no error");
  check_has(refusal({{"rank_pattern", {{"q_proj", 2}, {".*attn.*", 3}}}}), {"rank_pattern", "two values"});
}

}  // namespace kvscope
