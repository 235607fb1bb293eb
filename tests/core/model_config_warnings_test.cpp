// What config.json and generation_config.json say that is read otherwise, left out or not understood; and shapes that no
// kernel takes.
#include <catch2/catch.hpp>

#include "engine/core/files/weights/config_keys.h"
#include "tests/core/model_config_support.h"

using kvscope::ModelConfig;
using kvscope::test::error_of;
using kvscope::test::good;
using kvscope::test::load;
using kvscope::test::load_error;
using kvscope::test::of_family;
using kvscope::test::TempFolder;
using kvscope::test::with;
using kvscope::test::without;
using nlohmann::json;

TEST_CASE("A generation setting that cannot be used is left out with a warning, and refuses no model") {
  const auto [key, value] = GENERATE(table<const char*, json>({{"temperature", -0.1},
                                                               {"temperature", "hot"},
                                                               {"top_k", -2},
                                                               {"top_k", 2.5},
                                                               {"top_p", 1.5},
                                                               {"min_p", -1},
                                                               {"repetition_penalty", 0},
                                                               {"do_sample", "yes"},
                                                               {"eos_token_id", "2"},
                                                               {"eos_token_id", 4096},
                                                               {"eos_token_id", {-1}}}));
  const ModelConfig c = load(good(), {{key, value}, {"top_k", std::string(key) == "top_k" ? value : json(20)}});
  REQUIRE(c.warnings.size() == 1);
  const json shown = value.is_array() ? value.front() : value;
  CHECK_THAT(c.warnings[0], Catch::Contains("generation_config.json: " + std::string(key) + ": " + shown.dump()) &&
                                Catch::EndsWith("; ignored"));
  CHECK(c.generation.top_k == (std::string(key) == "top_k" ? std::nullopt : std::optional(20)));
}

TEST_CASE("A top_k of -1 is no limit, as vLLM writes it") {
  const ModelConfig c = load(good(), {{"top_k", -1}, {"temperature", 0}});
  CHECK(c.generation.top_k == 0);
  CHECK(c.warnings.empty());
}

TEST_CASE("A generation setting that no run here applies is named, and one at its neutral value is not") {
  const auto warnings = [](const json& generation) { return load(good(), generation).warnings; };
  CHECK(warnings({{"no_repeat_ngram_size", 0}, {"num_beams", 1}, {"length_penalty", 1.0}, {"bad_words_ids", nullptr}})
            .empty());
  const std::vector<std::string> lines = warnings({{"no_repeat_ngram_size", 3}, {"suppress_tokens", {1}}});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::EndsWith("generation_config.json: unknown keys: no_repeat_ngram_size, suppress_tokens; "
                                       "KVScope does not apply it"));
}

TEST_CASE("An end or a beginning of text past the vocabulary is left out with a warning") {
  const auto [key, value, id] = GENERATE(table<const char*, json, const char*>(
      {{"eos_token_id", 4096, "4096"}, {"eos_token_id", {1, -1}, "-1"}, {"bos_token_id", 99999, "99999"}}));
  const ModelConfig c = load(with(key, value));
  REQUIRE(c.warnings.size() == 1);
  CHECK_THAT(c.warnings[0], Catch::EndsWith(std::string("config.json: ") + key + ": " + id +
                                            "; expected an integer from 0 to 4095; ignored"));
  if (value.is_array()) CHECK(c.eos_ids == std::vector<std::int32_t>{1});
}

TEST_CASE("A key that a family's row names is understood of this family alone") {
  const auto warnings = [](const kvscope::ModelFamily& family) {
    std::vector<std::string> lines;
    kvscope::warn_of_other_keys({{"logit_scale", 0.5}, {"rope_local_base_freq", 1e4}}, family, "config.json", lines);
    return lines;
  };
  kvscope::ModelFamily family = {.keys = {"rope_local_base_freq", "logit_scale"}};
  CHECK(warnings(family).empty());
  CHECK(family.reads("logit_scale"));
  family.keys[1] = {};
  CHECK_FALSE(family.reads("logit_scale"));
  REQUIRE(warnings(family).size() == 1);
  CHECK_THAT(warnings(family)[0], Catch::Contains("unknown keys: logit_scale;"));
}

TEST_CASE("A key that is not understood gives a warning if it holds a value, and the families' usual keys give none") {
  const auto warnings = [](const json& config) { return load(config).warnings; };
  json config = good();
  config["logit_scale"] = nullptr;
  config["use_mrope"] = false;
  config["mlp_only_layers"] = json::array();
  config["attention_dropout"] = 0.1;
  config["transformers_version"] = "4.51.0";
  CHECK(warnings(config).empty());
  const char* key = GENERATE("logit_scale", "final_logit_softcapping", "attn_logit_softcapping", "embedding_multiplier",
                             "residual_multiplier", "auto_map", "num_local_experts", "query_pre_attn_scalar");
  config[key] = 0.5;
  REQUIRE(warnings(config).size() == 1);
  CHECK_THAT(warnings(config)[0], Catch::EndsWith(std::string("config.json: unknown keys: ") + key +
                                                  "; the model may compute something else"));
}

TEST_CASE("A key of the rotary section that is not understood gives a warning") {
  const ModelConfig c = load(with("rope_scaling", {{"type", "default"}, {"mrope_section", {2, 3}}}));
  REQUIRE(c.warnings.size() == 1);
  CHECK_THAT(c.warnings[0], Catch::Contains("config.json: rope_scaling: unknown keys: mrope_section"));
}

TEST_CASE("A window that a family does not have is named, not computed") {
  json config = of_family("LlamaForCausalLM");
  config["sliding_window"] = 512;
  REQUIRE(load(config).warnings.size() == 1);
  CHECK_THAT(load(config).warnings[0], Catch::Contains("unknown keys: sliding_window"));
}

TEST_CASE("A configuration that names no architecture is that of its model_type") {
  for (const json& none : {json(), json::array()}) {
    CHECK(std::string(load(with("architectures", none)).family->architecture) == "Qwen3ForCausalLM");
  }
  json config = without("architectures");
  CHECK(std::string(load(config).family->architecture) == "Qwen3ForCausalLM");
  CHECK(load(config).warnings.empty());
  config["model_type"] = "mamba";
  CHECK_THAT(load_error(config), Catch::StartsWith("config.json: architectures: missing; expected NAMEForCausalLM, "));
}

TEST_CASE("A factor of null for YaRN is the quotient of the two lengths") {
  const json section = {{"type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 512}};
  const kvscope::RopeScaling scaling = load(with("rope_scaling", section)).layers.front().rope_scaling;
  CHECK(scaling.factor == 4);
  CHECK(scaling.original_positions == 512);
  json shorter = section;
  shorter["original_max_position_embeddings"] = 4096;
  CHECK_THAT(load_error(with("rope_scaling", shorter)),
             Catch::StartsWith("config.json: rope_scaling.factor: null, but the context became shorter"));
  CHECK_THAT(load_error(with("rope_scaling", {{"type", "linear"}, {"factor", nullptr}})),
             Catch::StartsWith("config.json: rope_scaling.factor: null; expected a number"));
}

TEST_CASE("swish is silu") { CHECK(load(with("hidden_act", "swish")).warnings.empty()); }

TEST_CASE("A shape that no kernel takes is refused by the field that says it") {
  const auto [head_dim, passes] = GENERATE(table<int, bool>({{8, true},
                                                             {40, true},
                                                             {64, true},
                                                             {80, true},
                                                             {256, true},
                                                             {12, false},
                                                             {60, false},
                                                             {100, false},
                                                             {254, false}}));
  if (passes) {
    CHECK(load(with("head_dim", head_dim)).head_dim == head_dim);
  } else {
    CHECK_THAT(load_error(with("head_dim", head_dim)),
               Catch::StartsWith("config.json: head_dim: " + std::to_string(head_dim) +
                                 " (of hidden_size 256 and 8 "
                                 "heads); expected a multiple of 8 up to 256"));
  }
  json implied = of_family("LlamaForCausalLM");  // 3200 / 32, open_llama_3b
  implied["hidden_size"] = 3200, implied["num_attention_heads"] = 32, implied["num_key_value_heads"] = 32;
  CHECK_THAT(load_error(implied), Catch::StartsWith("config.json: head_dim: 100 (of hidden_size 3200 and 32 heads)"));
  CHECK_THAT(load_error(with("intermediate_size", 57345)),
             Catch::StartsWith("config.json: intermediate_size: 57345 numbers per row; expected at most 57344"));
  CHECK(load(with("intermediate_size", 57344)).intermediate_size == 57344);
}
