#include "engine/bench/decode_bench.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/bench/bench_model.h"
#include "engine/bench/shapes.h"
#include "engine/bench/statistics.h"
#include "engine/core/support/error.h"
#include "engine/generate/generation.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

struct BenchArgs {
  int prompt_tokens, max_tokens, repeats;
  std::vector<std::string> policies;
};

/// One policy measured once.
struct Sample {
  double prefill, decode;  // tokens per second
  std::int64_t cache_bytes;
};

BenchArgs read_args(const JsonObject& args, const LoadedModel& model) {
  const int positions = model.config().max_positions;
  BenchArgs out;
  out.max_tokens = static_cast<int>(args.integer_or("max_tokens", std::min(128, positions / 4), 1, positions - 1));
  const int prompt_default = std::min(1024, positions - out.max_tokens);
  out.prompt_tokens = static_cast<int>(args.integer_or("prompt_tokens", prompt_default, 1, positions - out.max_tokens));
  out.repeats = static_cast<int>(args.integer_or("repeats", 3, 1, 1000));
  if (args.has("policy")) {
    out.policies = {args.text("policy")};
  } else {
    out.policies = {"full"};
    if (const int delay = model.scorer_delay(); delay > 0) {
      // A quarter of the positions, but never so few that there is no long-range slot.
      const int budget = std::max((out.prompt_tokens + out.max_tokens) / 4, 4 + delay + 16);
      out.policies.push_back("kvpop:budget=" + std::to_string(budget) + ",sinks=4,window=" + std::to_string(delay));
    }
  }
  return out;
}

/// nullopt if cancelled. Generation refuses logits that are not finite, so a number here belongs to a sound
/// computation.
std::optional<Sample> measure(const LoadedModel& model, const BenchArgs& args, const std::string& policy,
                              bool recording, const JobContext& context) {
  protocol::RunRequest request;
  request.prompt_ids = bench_prompt(args.prompt_tokens, model.config().vocab_size);
  request.policy = PolicySpec::parse(policy);
  request.max_tokens = args.max_tokens;
  request.stop_at_eos = false;
  Generation run(model, request);
  run.set_recording(recording);
  run.prefill({}, {.logprobs = false});
  while (!run.finished()) {
    if (context.cancelled != nullptr && *context.cancelled) return std::nullopt;
    run.step();
  }
  return Sample{args.prompt_tokens / run.timings().prefill_s, args.max_tokens / run.timings().decode_s,
                run.cache_bytes()};
}

std::string row_text(const json& row) {
  char text[256];
  const json& decode = row["decode_tokens_per_s"];
  std::snprintf(text, sizeof text,
                "%-44s %-14s decode %9.1f tokens/s (%.1f ... %.1f)  prefill %9.0f tokens/s  cache %8.2f MiB",
                row["policy"].get<std::string>().c_str(), row["recording"].get<bool>() ? "recording" : "not recording",
                decode["median"].get<double>(), decode["min"].get<double>(), decode["max"].get<double>(),
                row["prefill_tokens_per_s"]["median"].get<double>(), row["cache_bytes"].get<double>() / (1 << 20));
  return text;
}

/// One row: a policy, with or without recording. Null if cancelled.
json bench_policy(const LoadedModel& model, const BenchArgs& args, const std::string& policy, bool recording,
                  const JobContext& context) {
  std::vector<double> prefill, decode;
  std::int64_t bytes = 0;
  for (int repeat = -1; repeat < args.repeats; ++repeat) {  // the first warms up
    const std::optional<Sample> sample = measure(model, args, policy, recording, context);
    if (!sample) return nullptr;
    if (repeat < 0) continue;
    prefill.push_back(sample->prefill);
    decode.push_back(sample->decode);
    bytes = sample->cache_bytes;
  }
  return {{"policy", PolicySpec::parse(policy).to_string()},
          {"recording", recording},
          {"prefill_tokens_per_s", to_json(spread_of(prefill))},
          {"decode_tokens_per_s", to_json(spread_of(decode))},
          {"cache_bytes", bytes}};
}

}  // namespace

json decode_bench(const JsonObject& args, JobContext& context) {
  const LoadedModel model = load_bench_model(args, context, 0, args.text_or("policy", "full"));
  const BenchArgs bench = read_args(args, model);
  json rows = json::array();
  const double n_rows = static_cast<double>(2 * bench.policies.size());
  for (const std::string& policy : bench.policies) {
    for (const bool recording : {false, true}) {
      if (context.progress) context.progress("bench", static_cast<double>(rows.size()), n_rows, policy);
      json row = bench_policy(model, bench, policy, recording, context);
      if (row.is_null()) return {{"status", "cancelled"}, {"rows", rows}};
      // The first two rows are the yardstick, "full" unless one policy was asked for.
      const std::size_t base = rows.size() % 2;
      const double reference = (rows.size() < 2 ? row : rows[base])["decode_tokens_per_s"]["median"];
      row["decode_ratio_to_first"] = row["decode_tokens_per_s"]["median"].get<double>() / reference;
      if (context.row) context.row(row_text(row), row);
      rows.push_back(std::move(row));
    }
  }
  return {{"status", "complete"},
          {"model", model.info().name},
          {"device", model.info().device},
          {"dtype", model.info().dtype},
          {"prompt_tokens", bench.prompt_tokens},
          {"max_tokens", bench.max_tokens},
          {"repeats", bench.repeats},
          {"rows", std::move(rows)}};
}

}  // namespace kvscope::engine
