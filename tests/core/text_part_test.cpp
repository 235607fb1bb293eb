// config.json of a model whose language model is a part of it.
#include "engine/core/files/weights/text_part.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/core/model_config_support.h"

using kvscope::ModelConfig;
using kvscope::name_in_text_part;
using kvscope::test::load;
using kvscope::test::load_error;
using nlohmann::json;

namespace {

/// As published: Gemma 3 of 4, 12 and 27 B. What a text_config leaves out is what transformers fills in.
json published(const json& text) {
  return {{"architectures", {"Gemma3ForConditionalGeneration"}},
          {"boi_token_index", 255999},
          {"eoi_token_index", 256000},
          {"eos_token_id", {1, 106}},
          {"image_token_index", 262144},
          {"initializer_range", 0.02},
          {"mm_tokens_per_image", 256},
          {"model_type", "gemma3"},
          {"text_config", text},
          {"torch_dtype", "bfloat16"},
          {"vision_config", {{"hidden_size", 1152}, {"model_type", "siglip_vision_model"}}}};
}

json of_4b() {
  return {{"hidden_size", 2560},
          {"intermediate_size", 10240},
          {"model_type", "gemma3_text"},
          {"num_hidden_layers", 34},
          {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
          {"sliding_window", 1024}};
}

}  // namespace

TEST_CASE("Gemma 3 of 4 B is read from the text part of its published file") {
  const ModelConfig c = load(published(of_4b()));
  CHECK(std::string(c.family->architecture) == "Gemma3ForCausalLM");
  CHECK(c.vocab_size == 262208);
  CHECK(c.hidden_size == 2560);
  CHECK(c.intermediate_size == 10240);
  CHECK(c.n_layers == 34);
  CHECK(c.n_heads == 8);
  CHECK(c.n_kv_heads == 4);
  CHECK(c.head_dim == 256);
  CHECK(c.max_positions == 131072);
  CHECK(c.tie_word_embeddings);
  CHECK(c.dtype == "bfloat16");
  CHECK(c.eos_ids == std::vector<std::int32_t>{1, 106});
  CHECK(c.attention_scale(0) == 1.0 / 16);
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const bool is_global = i % 6 == 5;
    CAPTURE(i);
    CHECK(c.layers[i].window == (is_global ? 0 : 1024));
    CHECK(c.layers[i].rope_theta == (is_global ? 1e6 : 1e4));
    CHECK(c.layers[i].rope_scaling.factor == (is_global ? 8 : 1));
  }
  REQUIRE(c.warnings.size() == 1);
  CHECK_THAT(c.warnings.front(), Catch::EndsWith("config.json: only the text part of Gemma3ForConditionalGeneration is "
                                                 "loaded; prompts cannot have images"));
}

TEST_CASE("Gemma 3 of 12 and 27 B name the heads that they have, and 27 B another scale of attention") {
  json text = of_4b();
  text.update(json{{"hidden_size", 3840}, {"num_attention_heads", 16}, {"num_key_value_heads", 8}});
  CHECK(load(published(text)).n_heads == 16);
  CHECK(load(published(text)).n_kv_heads == 8);
  text.update(json{{"hidden_size", 5376},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 16},
                   {"head_dim", 128},
                   {"query_pre_attn_scalar", 168}});
  CHECK(load(published(text)).head_dim == 128);
  CHECK(load(published(text)).attention_scale(0) == 1 / std::sqrt(168.0));
}

TEST_CASE("A text part says for itself what the whole says too, and a file without architectures goes by its type") {
  json config = published(of_4b());
  config["text_config"].update(json{{"eos_token_id", 5}, {"torch_dtype", "float32"}, {"vocab_size", 300}});
  config["eos_token_id"] = 7;
  config.erase("architectures");
  const ModelConfig c = load(config);
  CHECK(c.eos_ids == std::vector<std::int32_t>{5});
  CHECK(c.dtype == "float32");
  CHECK(c.vocab_size == 300);
}

TEST_CASE("A text part that is absent, of another type or wrong in a field is refused by its place") {
  json config = published(of_4b());
  config["text_config"]["num_attention_heads"] = 3;
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: text_config.num_key_value_heads: 4; expected a divisor"));
  config["text_config"]["num_attention_heads"] = "many";
  CHECK_THAT(load_error(config), Catch::StartsWith("config.json: text_config.num_attention_heads: "));
  config["text_config"]["model_type"] = "gemma2";
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: text_config.model_type: \"gemma2\"; expected \"gemma3_text\""));
  config["text_config"] = json::array();
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: text_config: not an object; expected an object, the language model"));
  config.erase("text_config");
  CHECK_THAT(load_error(config), Catch::StartsWith("config.json: text_config: missing"));
  config = published(of_4b());
  config["architectures"] = {"Qwen2_5_VLForConditionalGeneration"};
  CHECK_THAT(load_error(config), Catch::Contains("is not supported") && Catch::Contains("--engine hf"));
}

TEST_CASE(
    "Tensors of a text part have the names that they have alone, as published and as transformers 4.52 wrote them") {
  CHECK(name_in_text_part("language_model.model.layers.3.mlp.up_proj.weight") == "model.layers.3.mlp.up_proj.weight");
  CHECK(name_in_text_part("language_model.lm_head.weight") == "lm_head.weight");
  CHECK(name_in_text_part("model.language_model.norm.weight") == "model.norm.weight");
  CHECK_FALSE(name_in_text_part("model.norm.weight"));
  CHECK_FALSE(name_in_text_part("vision_tower.vision_model.post_layernorm.weight"));
}
