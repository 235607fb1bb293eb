#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/decode_rows.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

constexpr int kUsualBatch = 8;

/// "1,8,32" or a number; by default `usual`.
std::vector<int> batches_of(const JsonObject& args, std::vector<int> usual) {
  if (!args.has("batch")) return usual;
  const json& given = args.raw()["batch"];
  const std::string text = given.is_string() ? given.get<std::string>() : given.dump();
  std::vector<int> batches;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const json number = json::parse(text.substr(begin, end - begin), nullptr, false);
    const int batch = number.is_number_integer() ? number.get<int>() : 0;
    if (batch < 1 || batch > GenerationBatch::kMaxBatch) {
      throw Error(
          {.code = ExitCode::usage,
           .file = "--batch",
           .found = text,
           .expected = "numbers from 1 to " + std::to_string(GenerationBatch::kMaxBatch) + ", separated by commas"});
    }
    batches.push_back(batch);
    begin = end + 1;
  }
  return batches;
}

}  // namespace

json batch_bench(const JsonObject& args_json, JobContext& context) {
  const DecodeArgs args(args_json);
  const std::vector<int> batches = batches_of(args_json, {1, 2, 4, 8, 16, 32});
  const LoadedModel model = load_bench_model(args_json, context, args.n_positions(), "kvpop:window=256");
  std::vector<BenchCase> cases;
  for (const BenchCase& one : bench_cases(args, {"full"})) {
    for (const int batch : batches) cases.push_back({one.policy, batch});
  }
  return decode_rows(model, args, cases, false, context);
}

json ragged_bench(const JsonObject& args_json, JobContext& context) {
  const DecodeArgs args(args_json);
  const std::vector<int> batches = batches_of(args_json, {kUsualBatch});
  const LoadedModel model = load_bench_model(args_json, context, args.n_positions(), "kvpop:window=256");
  const int window = std::clamp(args.prompt_tokens / 16, 1, 256);
  const std::string quarter = "random:admit=0.25,sinks=4,window=" + std::to_string(window);
  std::vector<BenchCase> cases;
  for (const int batch : batches) {
    cases.push_back({"full", batch});
    for (const BenchCase& one : bench_cases(args, {quarter}, batch)) cases.push_back(one);
  }
  return decode_rows(model, args, cases, true, context);
}

}  // namespace kvscope::engine
