#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/decode_rows.h"

namespace kvscope::engine {

nlohmann::json decode_bench(const JsonObject& args_json, JobContext& context) {
  const DecodeArgs args(args_json);
  const int batch = static_cast<int>(args_json.integer_or("batch", 1, 1, GenerationBatch::kMaxBatch));
  const LoadedModel model = load_bench_model(args_json, context, args.n_positions(), "kvpop:window=256");
  return decode_rows(model, args, bench_cases(args, default_policies(model, args.prompt_tokens), batch), false,
                     context);
}

}  // namespace kvscope::engine
