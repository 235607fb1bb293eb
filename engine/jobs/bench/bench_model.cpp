#include "engine/jobs/bench/bench_model.h"

#include <algorithm>

#include "engine/core/policy/policy_text.h"
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

}  // namespace kvscope::engine
