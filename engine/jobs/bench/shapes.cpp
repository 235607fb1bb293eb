#include "engine/jobs/bench/shapes.h"

#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

struct Shape {
  const char* name;
  const char* config;  // what decides the shape in the config.json of such a model
};
constexpr Shape kShapes[] = {
    {"kvscope-tiny",
     R"({"architectures":["Qwen3ForCausalLM"],"vocab_size":4096,"hidden_size":256,"intermediate_size":768,
"num_hidden_layers":6,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":64,
"max_position_embeddings":2048,"tie_word_embeddings":true,"rope_theta":1000000.0})"},
    {"smollm2-135m",
     R"({"architectures":["LlamaForCausalLM"],"vocab_size":49152,"hidden_size":576,"intermediate_size":1536,
"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"head_dim":64,
"max_position_embeddings":8192,"tie_word_embeddings":true,"rope_theta":100000.0})"},
    {"qwen3-0.6b", R"({"architectures":["Qwen3ForCausalLM"],"vocab_size":151936,"hidden_size":1024,
"intermediate_size":3072,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,
"head_dim":128,"max_position_embeddings":40960,"tie_word_embeddings":true,"rope_theta":1000000.0})"},
    {"qwen3-1.7b", R"({"architectures":["Qwen3ForCausalLM"],"vocab_size":151936,"hidden_size":2048,
"intermediate_size":6144,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,
"head_dim":128,"max_position_embeddings":40960,"tie_word_embeddings":true,"rope_theta":1000000.0})"},
    {"qwen3-4b", R"({"architectures":["Qwen3ForCausalLM"],"vocab_size":151936,"hidden_size":2560,
"intermediate_size":9728,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,
"head_dim":128,"max_position_embeddings":40960,"tie_word_embeddings":true,"rope_theta":1000000.0})"},
    {"qwen3-8b", R"({"architectures":["Qwen3ForCausalLM"],"vocab_size":151936,"hidden_size":4096,
"intermediate_size":12288,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,
"head_dim":128,"max_position_embeddings":40960,"tie_word_embeddings":false,"rope_theta":1000000.0})"},
    {"llama-3.1-8b", R"({"architectures":["LlamaForCausalLM"],"vocab_size":128256,"hidden_size":4096,
"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
"head_dim":128,"max_position_embeddings":131072,"tie_word_embeddings":false,"rope_theta":500000.0})"},
    {"qwen3-30b-a3b", R"({"architectures":["Qwen3MoeForCausalLM"],"vocab_size":151936,"hidden_size":2048,
"intermediate_size":6144,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,
"head_dim":128,"max_position_embeddings":40960,"tie_word_embeddings":false,"rope_theta":1000000.0,
"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"norm_topk_prob":true})"},
    {"gemma-3-12b", R"({"architectures":["Gemma3ForCausalLM"],"vocab_size":262208,"hidden_size":3840,
"intermediate_size":15360,"num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":8,
"head_dim":256,"max_position_embeddings":131072,"tie_word_embeddings":true,"rope_theta":1000000.0,
"sliding_window":1024,"sliding_window_pattern":6,"rope_local_base_freq":10000.0,
"query_pre_attn_scalar":256,"rope_scaling":{"rope_type":"linear","factor":8.0}})"},
    {"gpt-oss-20b", R"({"architectures":["GptOssForCausalLM"],"vocab_size":201088,"hidden_size":2880,
"intermediate_size":2880,"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,
"head_dim":64,"max_position_embeddings":131072,"tie_word_embeddings":false,"rope_theta":150000.0,
"num_local_experts":32,"num_experts_per_tok":4,"sliding_window":128,"attention_bias":true,
"rope_scaling":{"rope_type":"yarn","factor":32.0,"beta_fast":32.0,"beta_slow":1.0,
"original_max_position_embeddings":4096,"truncate":false}})"},
};

}  // namespace

ModelConfig shape_config(const std::string& name) {
  std::string names;
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return ModelConfig::of(nlohmann::json::parse(shape.config), "the shape " + name);
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  throw Error({.code = ExitCode::usage, .file = "--shape", .found = name, .expected = "one of " + names});
}

}  // namespace kvscope::engine
