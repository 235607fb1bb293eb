// A model's folder whose files do not agree with each other.
#include "engine/core/files/weights/model_folder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"

using kvscope::ModelFolder;
using kvscope::test::error_of;
using kvscope::test::TempFolder;
using nlohmann::json;

namespace {

/// The small model with a head in its file: the embedding itself, or another.
void write_with_head(const std::filesystem::path& folder, bool same) {
  json config = kvscope::test::small_model_config();
  config["tie_word_embeddings"] = false;
  kvscope::test::write_model_folder(folder, config, 1);
  const kvscope::ModelConfig read = kvscope::ModelConfig::load(folder);
  std::vector<std::vector<float>> values;
  std::vector<kvscope::TensorToWrite> tensors;
  for (const auto& [name, shape] : kvscope::test::tensor_shapes(read)) {
    const bool copies = same && name == "lm_head.weight";
    values.push_back(kvscope::test::formula_tensor(copies ? "model.embed_tokens.weight" : name, shape, 1));
    tensors.push_back({name, kvscope::TensorType::f32, shape, {}});
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(values[i]));
  kvscope::write_safetensors(folder / "model.safetensors", tensors);
  config["tie_word_embeddings"] = true;
  std::ofstream(folder / "config.json") << config.dump();
}

}  // namespace

TEST_CASE("A whole folder opens without a warning") {
  const TempFolder folder;
  kvscope::test::write_model_folder(folder.path(), kvscope::test::small_model_config(), 1);
  const ModelFolder model = ModelFolder::open(folder.path());
  CHECK(model.warnings.empty());
  CHECK(model.config.tie_word_embeddings);
}

TEST_CASE("A head of its own beside tied embeddings is used, with one warning, and the embedding's copy is not") {
  const bool same = GENERATE(true, false);
  const TempFolder folder;
  write_with_head(folder.path(), same);
  const ModelFolder model = ModelFolder::open(folder.path());
  CHECK(model.config.tie_word_embeddings == same);
  REQUIRE(model.warnings.size() == (same ? 0 : 1));
  if (!same)
    CHECK_THAT(model.warnings[0], Catch::Contains("config.json: tie_word_embeddings: true, but the weights have "
                                                  "lm_head.weight, which differs from the embedding. KVScope uses it"));
}

TEST_CASE("Tokens past the embedding are named, and a prompt that has one is refused by it") {
  const TempFolder folder;
  json config = kvscope::test::small_model_config();
  config["vocab_size"] = 4094;
  kvscope::test::write_model_folder(folder.path(), config, 1);
  const ModelFolder model = ModelFolder::open(folder.path());
  REQUIRE(model.tokenizer.vocab_size() == 4096);
  REQUIRE(model.warnings.size() == 1);
  CHECK_THAT(model.warnings[0], Catch::Contains("tokenizer.json: 2 tokens, \"") &&
                                    Catch::Contains("id 4094 and up, are beyond the embedding's 4094 rows"));
  const std::string token(model.tokenizer.piece(4095));
  CHECK(error_of([&] { kvscope::check_token_ids({0, 4093}, 4094, &model.tokenizer); }) == "no error");
  CHECK(error_of([&] {
          kvscope::check_token_ids({0, 4095}, 4094, &model.tokenizer);
        }) == "prompt: token id 4095, " + kvscope::in_quotes(token) +
                  "; expected 0 ... 4093; hint: the model's embedding has no row for this token: leave it out");
  CHECK(error_of([&] { kvscope::check_token_ids({4096}, 4094, &model.tokenizer); }) ==
        "prompt: token id 4096; expected 0 ... 4093");
  CHECK(error_of([&] { kvscope::check_token_ids({-1}, 4094, nullptr); }) == "prompt: token id -1; expected 0 ... 4093");
}
