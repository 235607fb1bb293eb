// OLMo 2 and 3: where their norms are, and which layers have a window and a scaled rotation.
#include <catch2/catch.hpp>

#include "tests/core/model_config_support.h"

using kvscope::ModelConfig;
using kvscope::NormPlacement;
using kvscope::QkNorm;
using kvscope::RopeKind;
using kvscope::test::load;
using kvscope::test::load_error;
using kvscope::test::of_family;
using nlohmann::json;

namespace {

constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

/// As the makers write it, with eight layers.
json olmo3() {
  return json::parse(R"({
    "architectures": ["Olmo3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 257,
    "hidden_act": "silu", "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 1376,
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                    "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 4, "num_hidden_layers": 8,
    "num_key_value_heads": 4, "pad_token_id": 277, "rms_norm_eps": 1e-06,
    "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
                     "original_max_position_embeddings": 8192, "rope_type": "yarn"},
    "rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": false, "dtype": "bfloat16",
    "transformers_version": "4.57.1", "use_cache": true, "vocab_size": 1000})");
}

json with(const char* key, const json& value) {
  json config = olmo3();
  config[key] = value;
  return config;
}

/// As in olmo3(): YaRN in layers 3 and 7, the plain rotation of the same base in the others.
void check_rotations(const ModelConfig& c) {
  for (int i = 0; i < c.n_layers; ++i) {
    CAPTURE(i);
    const kvscope::LayerConfig& layer = c.layers[static_cast<std::size_t>(i)];
    const bool full = i % 4 == 3;
    CHECK(layer.rope_theta == 5e5);
    CHECK(layer.rope_scaling.kind == (full ? RopeKind::yarn : RopeKind::plain));
    CHECK(rotation_of(layer, c.head_dim).attention_scaling == (full ? Approx(1.2079441541679836) : Approx(1)));
  }
  CHECK(c.warnings.empty());
}

}  // namespace

TEST_CASE("OLMo 3 norms what attention and MLP give, all heads of q and k at once, and three of four layers slide") {
  const ModelConfig c = load(olmo3());
  CHECK(c.head_dim == 128);
  CHECK(c.group_size() == 1);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.layers[3].norms == NormPlacement::after);
  CHECK(c.layers[3].qk_norm == QkNorm::whole);
  CHECK(c.layers[3].norm_eps == 1e-6f);
  CHECK(c.windows() == std::vector<std::int32_t>{4096, 4096, 4096, 0, 4096, 4096, 4096, 0});
  check_rotations(c);
}

TEST_CASE("What OLMo 3's configuration may leave out gets the value that transformers gives it") {
  json config = olmo3();
  for (const char* key : {"layer_types", "num_key_value_heads", "rms_norm_eps", "rope_scaling", "rope_theta",
                          "sliding_window", "tie_word_embeddings"})
    config.erase(key);
  const ModelConfig c = load(config);
  CHECK(c.windows() == std::vector<std::int32_t>{4096, 4096, 4096, 0, 4096, 4096, 4096, 0});
  CHECK(c.n_kv_heads == 4);
  CHECK(c.rms_norm_eps == 1e-5f);
  CHECK(c.layers[0].rope_theta == 1e4);
  CHECK(c.layers[3] ==
        kvscope::LayerConfig{.norm_eps = 1e-5f, .norms = NormPlacement::after, .qk_norm = QkNorm::whole});
  CHECK_FALSE(c.tie_word_embeddings);
}

TEST_CASE("OLMo 3's rotation is scaled in the layers without a window alone, however its file is written") {
  json config = olmo3();
  json yarn = config["rope_scaling"];
  yarn["rope_theta"] = 5e5;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  SECTION("one section of all layers, as transformers 5 writes it") { config["rope_parameters"] = yarn; }
  SECTION("a section of each kind") {
    config["rope_parameters"] = {{kFull, yarn}, {kSliding, {{"rope_type", "default"}, {"rope_theta", 5e5}}}};
  }
  check_rotations(load(config));
}

TEST_CASE("A section of each kind of layer may have another base, and a window past the context changes no rotation") {
  json config = with("sliding_window", 65536);
  CHECK(load(config).windows().empty());
  CHECK(load(config).layers[0].rope_scaling.kind == RopeKind::plain);
  config["rope_parameters"] = {{kFull, {{"rope_type", "default"}, {"rope_theta", 3e6}}},
                               {kSliding, {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 3e4}}}};
  config.erase("rope_scaling");
  const ModelConfig c = load(config);
  CHECK(c.layers[3].rope_theta == 3e6);
  CHECK(c.layers[3].rope_scaling.kind == RopeKind::plain);
  CHECK(c.layers[0].rope_theta == 3e4);
  CHECK(c.layers[0].rope_scaling.factor == 2);
}

TEST_CASE("OLMo 2 is the same block without windows") {
  json config = of_family("Olmo2ForCausalLM");
  for (const char* key : {"num_key_value_heads", "tie_word_embeddings", "use_sliding_window", "rms_norm_eps"})
    config.erase(key);
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  const ModelConfig c = load(config);
  CHECK(c.windows().empty());
  CHECK(c.n_kv_heads == 8);
  CHECK(c.head_dim == 32);
  CHECK(c.layers[0].norms == NormPlacement::after);
  CHECK(c.layers[0].qk_norm == QkNorm::whole);
  CHECK(c.layers[0].norm_eps == 1e-5f);
  CHECK(c.layers[0].rope_scaling.factor == 2);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.warnings.empty());
  config["layer_types"] = std::vector<std::string>(6, kSliding);
  CHECK_THAT(load_error(config), Catch::Contains("layer_types: \"sliding_attention\" is not supported"));
}

TEST_CASE("What OLMo's files may ask for and no layer computes is refused in one line that names the other engine") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const auto c = GENERATE(values<Case>({
      {"attention_bias", true, "attention_bias: true is not supported; expected false"},
      {"hidden_act", "relu", "hidden_act: \"relu\" is not supported"},
      {"layer_types", std::vector<std::string>(8, "chunked_attention"), "layer_types: \"chunked_attention\" is not"},
      {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}, "rope_scaling.rope_type: \"dynamic\" is not"},
  }));
  const std::string line = load_error(with(c.key, c.value));
  CHECK_THAT(line, Catch::StartsWith(std::string("config.json: ") + c.reason) && Catch::Contains("--engine hf"));
  CHECK(line.find('\n') == line.npos);
}

TEST_CASE("A norm over more channels than the kernels take, and layers that slide without a window, are refused") {
  json config = with("num_attention_heads", 160);
  config["num_key_value_heads"] = 160;
  config["head_dim"] = 128;
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: layer 0: a norm over 20480 channels of q, which is not supported"));
  config["num_attention_heads"] = config["num_key_value_heads"] = 128;
  CHECK(load(config).n_heads == 128);
  CHECK_THAT(load_error(with("sliding_window", nullptr)),
             Catch::Contains("sliding_attention in layer 0, but no window"));
  // Gemma's keys are none of OLMo's.
  config = with("sliding_window_pattern", 2);
  config.erase("layer_types");
  CHECK(load(config).windows()[3] == 0);
  REQUIRE(load(config).warnings.size() == 1);
  CHECK_THAT(load(config).warnings[0], Catch::Contains("sliding_window_pattern"));
}
