// The experts of config.json, key by key.
#include "engine/core/files/weights/expert_config.h"

#include <catch2/catch.hpp>

#include "tests/core/model_config_support.h"

using kvscope::ExpertConfig;
using kvscope::MlpKind;
using kvscope::ModelConfig;
using kvscope::test::load;
using kvscope::test::load_error;
using kvscope::test::of_family;
using nlohmann::json;

namespace {

json mixture() {
  json config = of_family("Qwen3MoeForCausalLM");
  config["num_experts"] = 16;
  config["num_experts_per_tok"] = 4;
  config["moe_intermediate_size"] = 96;
  config["norm_topk_prob"] = true;
  return config;
}

json mixture_with(const char* key, const json& value) {
  json config = mixture();
  config[key] = value;
  return config;
}

/// Layers without experts.
std::vector<int> dense(const ModelConfig& c) {
  std::vector<int> layers;
  for (int i = 0; i < c.n_layers; ++i)
    if (c.layers[static_cast<std::size_t>(i)].mlp == MlpKind::gated) layers.push_back(i);
  return layers;
}

}  // namespace

TEST_CASE("Qwen3-30B-A3B's configuration as it is published is read") {
  const ModelConfig c = load(json::parse(
      R"({"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":151643,
      "decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":2048,
      "initializer_range":0.02,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,
      "mlp_only_layers":[],"model_type":"qwen3_moe","moe_intermediate_size":768,"norm_topk_prob":true,
      "num_attention_heads":32,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,
      "output_router_logits":false,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000.0,
      "router_aux_loss_coef":0.001,"sliding_window":null,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
      "transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,"vocab_size":151936})"));
  CHECK(c.warnings.empty());
  CHECK(dense(c).empty());
  CHECK(c.layers.back().experts == ExpertConfig{128, 8, 768, true});
  CHECK(c.layers.back().qk_norm == kvscope::QkNorm::heads);
  CHECK(c.head_dim == 128);
  CHECK(c.windows().empty());
  CHECK(c.max_positions == 40960);
}

TEST_CASE("Experts that config.json leaves out are those of transformers") {
  json config = of_family("Qwen3MoeForCausalLM");
  config.erase("num_key_value_heads");
  const ModelConfig c = load(config);
  CHECK(c.layers[0].experts == ExpertConfig{128, 8, 768, false});
  CHECK(c.n_kv_heads == 4);
  CHECK(c.head_dim == 32);  // of hidden_size 256 and 8 heads
  // transformers 5 writes the second name, and reads it first.
  config["num_local_experts"] = 16;
  CHECK(load(config).layers[0].experts.n == 16);
  config["num_experts"] = 12;
  CHECK(load(config).layers[0].experts.n == 16);
  config.erase("num_local_experts");
  CHECK(load(config).layers[0].experts.n == 12);
  CHECK(load(config).warnings.empty());
}

TEST_CASE("Layers without experts: those between the steps, and those of a list") {
  CHECK(dense(load(mixture_with("decoder_sparse_step", 2))) == std::vector<int>{0, 2, 4});
  CHECK(dense(load(mixture_with("decoder_sparse_step", 7))) == std::vector<int>{0, 1, 2, 3, 4, 5});
  json config = mixture_with("mlp_only_layers", {0, 5, 5});
  CHECK(dense(load(config)) == std::vector<int>{0, 5});
  config["decoder_sparse_step"] = 3;
  CHECK(dense(load(config)) == std::vector<int>{0, 1, 3, 4, 5});
  config["mlp_only_layers"] = nullptr;
  CHECK(dense(load(config)) == std::vector<int>{0, 1, 3, 4});
  CHECK(load(config).layers[0].experts == ExpertConfig{});
}

TEST_CASE("Experts that are out of range or not computed are refused by key") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const auto c = GENERATE(values<Case>({
      {"num_experts", 0, "num_experts: 0; expected an integer from 1 to 1024"},
      {"num_experts", 1025, "num_experts: 1025; expected an integer from 1 to 1024"},
      {"num_local_experts", -1, "num_local_experts: -1; expected an integer from 1 to 1024"},
      {"num_experts_per_tok", 0, "num_experts_per_tok: 0; expected an integer from 1 to 64"},
      {"num_experts_per_tok", 17, "num_experts_per_tok: 17; expected at most num_experts 16"},
      {"num_experts_per_tok", 65, "num_experts_per_tok: 65; expected an integer from 1 to 64"},
      {"moe_intermediate_size", 57345, "moe_intermediate_size: 57345; expected an integer from 1 to 57344"},
      {"moe_intermediate_size", "96", "moe_intermediate_size: \"96\"; expected an integer"},
      {"norm_topk_prob", 1, "norm_topk_prob: 1; expected true or false"},
      {"decoder_sparse_step", 0, "decoder_sparse_step: 0; expected an integer from 1 to 1024"},
      {"mlp_only_layers", 3, "mlp_only_layers: not a list; expected indices of layers, 0 to 5"},
      {"mlp_only_layers", {0, 6}, "mlp_only_layers: 6; expected indices of layers, 0 to 5"},
      {"mlp_only_layers", {-1}, "mlp_only_layers: -1; expected indices of layers, 0 to 5"},
      {"mlp_only_layers", {1.5}, "mlp_only_layers: 1.5; expected indices of layers, 0 to 5"},
      {"mlp_only_layers", {"1"}, "mlp_only_layers: no number; expected indices of layers, 0 to 5"},
      {"mlp_only_layers", {18446744073709551615u}, "mlp_only_layers: 18446744073709551615; expected indices"},
      {"shared_expert_intermediate_size", 512,
       "shared_expert_intermediate_size: shared experts are not supported; expected routed experts alone; hint: "
       "--engine hf (python3 -m kvscope.engine) runs other models of transformers"},
      {"n_shared_experts", 1, "n_shared_experts: shared experts are not supported"},
      {"hidden_act", "gelu_pytorch_tanh", "layer 0: experts with another hidden_act"},
      {"layer_types", std::vector<std::string>(6, "sliding_attention"), "layer_types: \"sliding_attention\" is not"},
  }));
  CHECK_THAT(load_error(mixture_with(c.key, c.value)), Catch::StartsWith(std::string("config.json: ") + c.reason));
}

TEST_CASE("A size of 0 for shared experts is none") {
  CHECK(dense(load(mixture_with("shared_expert_intermediate_size", 0))).empty());
}

TEST_CASE("A window of all layers of a mixture ends the context where use_sliding_window is true") {
  json config = mixture_with("sliding_window", 512);
  CHECK(load(config).max_positions == 2048);
  config["use_sliding_window"] = true;
  CHECK(load(config).max_positions == 512);
  CHECK(load(config).windows().empty());
  REQUIRE(load(config).warnings.size() == 1);
  config["sliding_window"] = nullptr;
  CHECK(load(config).max_positions == 2048);
  config["sliding_window"] = 4096;
  config["max_window_layers"] = 3;
  CHECK(load(config).warnings.empty());
}

TEST_CASE("Keys of experts are unknown to other families, and other mixtures are refused with a hint") {
  json config = kvscope::test::with("num_experts", 8);
  REQUIRE(load(config).warnings.size() == 1);
  CHECK_THAT(load(config).warnings[0], Catch::Contains("unknown keys: num_experts"));
  config["architectures"] = {"MixtralForCausalLM"};
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: architectures: \"MixtralForCausalLM\" is not supported") &&
                 Catch::EndsWith("hint: --engine hf (python3 -m kvscope.engine) runs other models of transformers"));
}
