#include <algorithm>

#include "engine/core/policy/policy.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/decode_rows.h"

namespace kvscope::engine {

nlohmann::json policy_bench(const JsonObject& args_json, JobContext& context) {
  const DecodeArgs args(args_json);
  const int batch = static_cast<int>(args_json.integer_or("batch", 1, 1, GenerationBatch::kMaxBatch));
  const LoadedModel model = load_bench_model(args_json, context, args.n_positions(), "kvpop:window=256");
  std::vector<std::string> policies = default_policies(model, args.prompt_tokens);  // the full cache is the first
  for (const auto& some : {swept_policies({"25%", args.prompt_tokens / 4}), args.policies}) {
    for (const std::string& policy : some) {
      if (std::ranges::find(policies, policy) == policies.end()) policies.push_back(policy);
    }
  }
  std::vector<BenchCase> cases;
  for (const std::string& policy : policies) cases.push_back({policy, batch});
  return decode_rows(model, args, cases, true, context);
}

}  // namespace kvscope::engine
