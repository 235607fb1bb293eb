#include "engine/jobs/bench/shapes.h"

#include <array>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

struct Shape {
  const char* name;
  const char* architecture;
  int vocab, hidden, ff, layers, heads, kv_heads, head_dim, max_positions;
  bool tied;
  double rope_theta;
};
constexpr std::array<Shape, 5> kShapes{
    {{"kvscope-tiny", "Qwen3ForCausalLM", 4096, 256, 768, 6, 8, 4, 64, 2048, true, 1e6},
     {"qwen3-0.6b", "Qwen3ForCausalLM", 151936, 1024, 3072, 28, 16, 8, 128, 40960, true, 1e6},
     {"qwen3-4b", "Qwen3ForCausalLM", 151936, 2560, 9728, 36, 32, 8, 128, 40960, true, 1e6},
     {"qwen3-8b", "Qwen3ForCausalLM", 151936, 4096, 12288, 36, 32, 8, 128, 40960, false, 1e6},
     {"llama-3.1-8b", "LlamaForCausalLM", 128256, 4096, 14336, 32, 32, 8, 128, 131072, false, 5e5}}};

ModelConfig config_of(const Shape& shape) {
  ModelConfig config;
  config.vocab_size = shape.vocab;
  config.hidden_size = shape.hidden;
  config.intermediate_size = shape.ff;
  config.n_layers = shape.layers;
  config.n_heads = shape.heads;
  config.n_kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.max_positions = shape.max_positions;
  config.tie_word_embeddings = shape.tied;
  config.set_family(*find_family(shape.architecture));
  for (LayerConfig& layer : config.layers) layer.rope_theta = shape.rope_theta;
  return config;
}

}  // namespace

ModelConfig shape_config(const std::string& name) {
  std::string names;
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return config_of(shape);
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  throw Error({.code = ExitCode::usage, .file = "--shape", .found = name, .expected = "one of " + names});
}

double layer_flops_per_token(const ModelConfig& config) {
  const double hidden = config.hidden_size, q = static_cast<double>(config.n_heads) * config.head_dim,
               kv = static_cast<double>(config.n_kv_heads) * config.head_dim;
  const double weights = hidden * (q + 2 * kv) + q * hidden + 3 * hidden * config.intermediate_size;
  return 2 * weights * config.n_layers;
}

double attention_flops(const ModelConfig& config, double pairs) {
  return 4.0 * config.head_dim * config.n_heads * config.n_layers * pairs;
}

std::vector<std::int32_t> bench_prompt(int n, int vocab_size) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  std::uint64_t state = 1;
  for (std::int32_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(vocab_size));
  }
  return ids;
}

}  // namespace kvscope::engine
