// Weights of a language model that is a part of a larger one.
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/json_file.h"
#include "engine/model/checkpoint.h"
#include "tests/engine/policy_cases.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

using namespace kvscope;

namespace {

constexpr const char* kText = "Gemma3ForCausalLM";

/// The model of `folder` again, as the text part of one that sees, with the names that `prefixes` give.
void write_whole(const test::TempFolder& folder, const ModelConfig& config,
                 const std::map<std::string, std::string>& prefixes) {
  nlohmann::json text = read_json(folder / "config.json");
  text.erase("architectures");
  folder.write("config.json", nlohmann::json{{"architectures", {"Gemma3ForConditionalGeneration"}},
                                             {"model_type", "gemma3"},
                                             {"text_config", text},
                                             {"vision_config", nlohmann::json::object()}}
                                  .dump());
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
  for (const auto& [name, shape] : test::tensor_shapes(config)) {
    std::string stored = name;
    for (const auto& [alone, in_whole] : prefixes)
      if (name.starts_with(alone)) stored = in_whole + name.substr(alone.size());
    tensors[stored] = {shape, test::formula_tensor(name, shape, 7)};
  }
  tensors["vision_tower.vision_model.post_layernorm.weight"] = {{3}, {1, 2, 3}};
  std::vector<TensorToWrite> out;
  for (const auto& [name, tensor] : tensors)
    out.push_back({name, TensorType::f32, tensor.first, std::as_bytes(std::span(tensor.second))});
  write_safetensors(folder / "model.safetensors", out);
}

}  // namespace

TEST_CASE("a model gives the same logits alone and as the text part of one that sees", "[engine][load][family]") {
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), test::small_model_config(kText), 7);
  const ModelConfig config = ModelConfig::load(folder.path());
  const std::vector<std::int32_t> ids = test::some_ids(40, config.vocab_size, 3);
  const auto alone = test::feed(engine::LoadedModel::load(folder.path(), {"cpu", "float32"}), ids, 30, "full").logits;
  using Prefixes = std::map<std::string, std::string>;
  write_whole(folder, config,
              GENERATE(Prefixes{{"model.", "language_model.model."}}, Prefixes{{"model.", "model.language_model."}}));
  const engine::LoadedModel whole = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  CHECK(test::feed(whole, ids, 30, "full").logits == alone);
}
