// gpt-oss: biases, sink logits, clamped experts and MXFP4, as config.json has them.
#include <bit>
#include <catch2/catch.hpp>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/mxfp4.h"
#include "tests/core/model_config_support.h"
#include "tests/support/golden.h"

using kvscope::ExpertConfig;
using kvscope::LayerConfig;
using kvscope::MlpActivation;
using kvscope::MlpKind;
using kvscope::ModelConfig;
using kvscope::RopeKind;
using kvscope::test::load;
using kvscope::test::load_error;
using kvscope::test::of_family;
using nlohmann::json;

namespace {

/// As the makers write it, with four layers.
json published() {
  return json::parse(R"({
    "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": 1002,
    "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
    "initializer_range": 0.02, "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
    "num_hidden_layers": 4, "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false,
    "pad_token_id": 999,
    "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                       "model.embed_tokens", "lm_head"],
                            "quant_method": "mxfp4"},
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                     "rope_type": "yarn", "truncate": false},
    "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": false, "transformers_version": "4.55.0.dev0", "use_cache": true, "vocab_size": 2048})");
}

json with(const char* key, const json& value) {
  json config = published();
  config[key] = value;
  return config;
}

json without(const char* key) {
  json config = published();
  config.erase(key);
  return config;
}

const LayerConfig& layer_of(const ModelConfig& c, std::size_t i) { return c.layers[i]; }

}  // namespace

TEST_CASE("gpt-oss as it is published is read field by field") {
  const ModelConfig c = load(published());
  CHECK(c.warnings.empty());
  CHECK(c.head_dim == 64);
  CHECK(c.group_size() == 8);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.dtype == "bfloat16");  // of numbers that are packed
  CHECK(c.windows() == std::vector<std::int32_t>{128, 0, 128, 0});
  for (const LayerConfig& layer : c.layers) {
    CHECK(layer.norm_eps == 1e-5f);
    CHECK(layer.qkv_bias);
    CHECK(layer.o_bias);
    CHECK(layer.attention.has_sink);
    CHECK(layer.mlp == MlpKind::experts);
    CHECK(layer.experts == ExpertConfig{32, 4, 2880, true, true});
    CHECK(layer.activation == MlpActivation::clamped);
    CHECK(layer.rope_theta == 150000);
    CHECK(layer.rope_scaling.kind == RopeKind::yarn);
    CHECK(layer.rope_scaling.factor == 32);
    CHECK_FALSE(layer.rope_scaling.truncate);
  }
}

TEST_CASE("What a gpt-oss configuration leaves out gets the value that transformers gives it") {
  json config = of_family("GptOssForCausalLM");
  for (const char* key : {"rope_theta", "rope_scaling", "rms_norm_eps", "num_key_value_heads", "tie_word_embeddings",
                          "attention_bias", "use_sliding_window"})
    config.erase(key);
  const ModelConfig c = load(config);
  CHECK(c.warnings.empty());
  CHECK(c.head_dim == 64);
  CHECK(c.n_kv_heads == 8);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.windows() == std::vector<std::int32_t>{128, 0, 128, 0, 128, 0});
  CHECK(layer_of(c, 0).experts == ExpertConfig{128, 4, 768, true, true});
  CHECK(layer_of(c, 0).norm_eps == 1e-5f);
  CHECK(layer_of(c, 0).rope_theta == 150000);
  CHECK(layer_of(c, 0).rope_scaling == layer_of(load(published()), 0).rope_scaling);
}

TEST_CASE("A rotation that gpt-oss' files give replaces all of the family's") {
  CHECK(layer_of(load(without("rope_scaling")), 0).rope_scaling.factor == 32);
  CHECK(layer_of(load(with("rope_scaling", nullptr)), 0).rope_scaling.factor == 32);
  const auto scaling = [](const json& section) {
    return layer_of(load(with("rope_scaling", section)), 0).rope_scaling;
  };
  CHECK(scaling({{"rope_type", "default"}}).kind == RopeKind::plain);
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  CHECK(scaling(yarn).truncate);
  CHECK(scaling(yarn).original_positions == 512);
  json config = without("rope_scaling");
  config["rope_parameters"] = GENERATE(json(), json::object());
  CHECK(layer_of(load(config), 0).rope_scaling.kind == RopeKind::plain);
}

TEST_CASE("gpt-oss' configurations that no layer computes are refused by key") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const auto c = GENERATE(values<Case>({
      {"attention_bias", false, "attention_bias: false is not supported; expected true, as in the published models"},
      {"mlp_bias", true, "mlp_bias: true is not supported"},
      {"swiglu_limit", 5.0, "swiglu_limit: another limit is not supported; expected 7"},
      {"hidden_act", "gelu_pytorch_tanh", "hidden_act: \"gelu_pytorch_tanh\" is not supported; expected \"silu\""},
      {"num_local_experts", 3, "num_experts_per_tok: 4; expected at most num_local_experts 3"},
      {"quantization_config",
       {{"quant_method", "gptq"}},
       "quantization_config: quantized weights are not supported; expected mxfp4"},
      {"quantization_config", "mxfp4", "quantization_config: quantized weights are not supported; expected mxfp4"},
      {"intermediate_size", 57345, "intermediate_size: 57345 numbers per row; expected at most 57344"},
  }));
  CHECK_THAT(load_error(with(c.key, c.value)), Catch::StartsWith(std::string("config.json: ") + c.reason));
}

TEST_CASE("Keys of other families' experts are unknown to gpt-oss, and MXFP4 is refused elsewhere") {
  for (const char* key :
       {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"}) {
    CAPTURE(key);
    const ModelConfig c = load(with(key, 1));
    REQUIRE(c.warnings.size() == 1);
    CHECK_THAT(c.warnings[0], Catch::Contains(std::string("unknown keys: ") + key));
    CHECK(layer_of(c, 0).experts == ExpertConfig{32, 4, 2880, true, true});
  }
  CHECK_THAT(load_error(kvscope::test::with("quantization_config", {{"quant_method", "mxfp4"}})),
             Catch::StartsWith("config.json: quantization_config: quantized weights are not supported; expected null"));
}

TEST_CASE("A clamped activation is for experts alone") {
  ModelConfig c = load(published());
  CHECK(devices_of(c) == "cpu, cuda");
  c.layers[2].mlp = MlpKind::gated;
  CHECK_THAT(kvscope::test::error_of([&] { check_layers(c, "config.json"); }),
             Catch::StartsWith("config.json: layer 2: a clamped activation of a single MLP, which is not supported"));
}

TEST_CASE("Numbers packed as MXFP4 are those that transformers unpacks, under every scale") {
  const json golden = kvscope::test::read_golden("tests/engine/golden/mxfp4.json");
  const std::vector<std::uint8_t> block = golden["block"];
  REQUIRE(golden["bits"].size() == 256);
  for (int scale = 0; scale < 256; ++scale) {
    CAPTURE(scale);
    float numbers[kvscope::kPackedNumbers];
    kvscope::unpack_mxfp4(block.data(), static_cast<std::uint8_t>(scale), numbers);
    std::vector<std::uint32_t> bits;
    for (const float number : numbers) {
      bits.push_back(std::bit_cast<std::uint32_t>(number) >> 16);
      CHECK((std::bit_cast<std::uint32_t>(number) & 0xffff) == 0);  // nothing to round
    }
    CHECK(bits == golden["bits"][static_cast<std::size_t>(scale)].get<std::vector<std::uint32_t>>());
  }
}
