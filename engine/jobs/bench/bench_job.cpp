#include "engine/core/support/error.h"
#include "engine/jobs/bench/decode_bench.h"
#include "engine/jobs/bench/prefill_bench.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

nlohmann::json bench_job(const nlohmann::json& args_json, JobContext& context) {
  const JsonObject args(args_json, "bench");
  const std::string name = args.text_or("name", "decode");
  if (name == "decode") return decode_bench(args, context);
  if (name == "prefill") return prefill_bench(args, context);
  throw Error({.code = ExitCode::usage, .file = "bench", .found = name, .expected = "decode or prefill"});
}

}  // namespace kvscope::engine
