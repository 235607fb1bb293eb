#include "engine/jobs/bench/bench_model.h"

#include <algorithm>

#include "engine/jobs/bench/shapes.h"

namespace kvscope::engine {

LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const std::string& policy) {
  const LoadOptions options{args.text_or("device", "auto"), args.text_or("dtype", "auto")};
  if (args.has("shape")) {
    ModelConfig config = shape_config(args.text("shape"));
    config.max_positions = std::max(config.max_positions, n_positions);
    const int window = PolicySpec::parse(policy).geometry(config.max_positions).window;
    return LoadedModel::random(config, 1, options, window);
  }
  return LoadedModel::load(args.text("model"), options, [&](std::int64_t done, std::int64_t total) {
    if (context.progress) context.progress("load", static_cast<double>(done), static_cast<double>(total), "");
  });
}

std::vector<std::string> default_policies(const LoadedModel& model, int prompt_tokens) {
  std::vector<std::string> out{"full"};
  if (const int delay = model.scorer_delay(); delay > 0) {
    const int budget = std::max(prompt_tokens / 4, 4 + delay + 16);  // never so few that there is no long-range slot
    out.push_back("kvpop:budget=" + std::to_string(budget) + ",sinks=4,window=" + std::to_string(delay));
  }
  return out;
}

RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens) {
  RunRequest request;
  request.prompt_ids = bench_prompt(n_tokens, model.config().vocab_size);
  request.policy = PolicySpec::parse(policy);
  request.max_tokens = max_tokens;
  request.stop_at_eos = false;
  return request;
}

}  // namespace kvscope::engine
