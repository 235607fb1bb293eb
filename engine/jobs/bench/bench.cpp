#include "engine/jobs/bench/bench.h"

#include <algorithm>
#include <array>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

/// Published shapes of models, to be measured with random weights: speed depends on the shape alone.
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

/// The shape named "qwen3-8b", "llama-3.1-8b", ... Throws Error (usage) that lists what there is.
ModelConfig shape_config(const std::string& name) {
  std::string names;
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return config_of(shape);
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  throw Error({.code = ExitCode::usage, .file = "--shape", .found = name, .expected = "one of " + names});
}

std::vector<std::string> default_policies(const LoadedModel& model, int prompt_tokens) {
  std::vector<std::string> out{"full"};
  if (const int delay = model.scorer_delay(); delay > 0) {
    const int budget = std::max(prompt_tokens / 4, 4 + delay + 16);  // never so few that there is no long-range slot
    out.push_back("kvpop:budget=" + std::to_string(budget) + ",sinks=4,window=" + std::to_string(delay));
  }
  return out;
}

}  // namespace

BenchArgs::BenchArgs(const JsonObject& args)
    : prompt_tokens(static_cast<int>(args.integer_or("prompt_tokens", 1024, 1, kMaxBenchTokens))),
      repeats(static_cast<int>(args.integer_or("repeats", 5, 1, 1000))) {
  if (args.has("policy")) policies = {args.text("policy")};
}

LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const char* default_policy) {
  const LoadOptions options{args.text_or("device", "auto"), args.text_or("dtype", "auto"), args.texts("gates")};
  if (args.has("shape")) {
    ModelConfig config = shape_config(args.text("shape"));
    config.max_positions = std::max(config.max_positions, n_positions);
    const int window = PolicySpec::parse(args.text_or("policy", default_policy)).geometry(config.max_positions).window;
    return LoadedModel::random(config, 1, options, window);
  }
  return LoadedModel::load(args.text("model"), options, [&](std::int64_t done, std::int64_t total) {
    if (context.progress) context.progress("load", static_cast<double>(done), static_cast<double>(total), "");
  });
}

RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens) {
  RunRequest request;
  request.prompt_ids.resize(static_cast<std::size_t>(n_tokens));
  std::uint64_t state = 1;
  for (std::int32_t& id : request.prompt_ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(model.config().vocab_size));
  }
  request.policy = PolicySpec::parse(policy);
  request.max_tokens = max_tokens;
  request.stop_at_eos = false;
  return request;
}

nlohmann::json bench_rows(const LoadedModel& model, const BenchArgs& args, const JobContext& context,
                          nlohmann::json facts,
                          const std::function<nlohmann::json(const std::string& policy)>& bench_policy,
                          std::string (*row_text)(const nlohmann::json& row)) {
  const auto policies = args.policies.empty() ? default_policies(model, args.prompt_tokens) : args.policies;
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& policy : policies) {
    if (context.progress) {
      context.progress("bench", static_cast<double>(rows.size()), static_cast<double>(policies.size()), policy);
    }
    nlohmann::json row = bench_policy(policy);
    if (row.is_null()) return {{"status", "cancelled"}, {"rows", rows}};
    if (context.row) context.row(row_text(row), row);
    rows.push_back(std::move(row));
  }
  facts.update({{"status", "complete"},
                {"model", model.info().name},
                {"device", model.info().device},
                {"dtype", model.info().dtype},
                {"repeats", args.repeats},
                {"rows", std::move(rows)}});
  return facts;
}

nlohmann::json bench_job(const nlohmann::json& args_json, JobContext& context) {
  const JsonObject args(args_json, "bench");
  const std::string name = args.text_or("name", "decode");
  if (name == "decode") return decode_bench(args, context);
  if (name == "prefill") return prefill_bench(args, context);
  throw Error({.code = ExitCode::usage, .file = "bench", .found = name, .expected = "decode or prefill"});
}

}  // namespace kvscope::engine
