#include <algorithm>
#include <cstdio>

#include "engine/core/support/error.h"
#include "engine/decode/forced_pass.h"
#include "engine/decode/run.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/device_rates.h"
#include "engine/jobs/bench/floors.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

/// A quarter of the text each; KVpop with its own window, and every head's budget in one pool.
std::vector<std::string> scored_policies(const LoadedModel& model, int n) {
  const int quarter = std::max(8, n / 4), window = std::clamp(quarter / 4, 1, 64);
  const std::string budget = ":budget=" + std::to_string(quarter), with_window = ",window=" + std::to_string(window);
  std::vector<std::string> out{"full", "snapkv" + budget + with_window, "expected-attention" + budget, "tova" + budget,
                               "h2o" + budget + with_window};
  if (const int delay = model.scorer_delay(); delay > 0) {
    out.push_back("kvpop:budget=" + std::to_string(std::max(quarter, 4 + delay + 16)) +
                  ",sinks=4,window=" + std::to_string(delay) + ",capacity=pooled");
  }
  return out;
}

ScoreRequest score_request(const LoadedModel& model, const BenchCase& one, int n, int n_positions, int chunk) {
  return {.ids = bench_request(model, one.policy, n, 0).prompt_ids,
          .policy = PolicySpec::parse(one.policy),
          .n_positions = n_positions,
          .chunk = chunk};
}

/// A text a little longer than the budget, so that tokens have left.
double check_score(const LoadedModel& model, const BenchCase& one, int n, int chunk) {
  const PolicySpec policy = PolicySpec::parse(one.policy);
  if (policy_of(policy).plan(policy, policy.geometry(n)).selection.tokens > 0) {
    throw Error({.code = ExitCode::usage,
                 .file = "--policy",
                 .found = one.policy + ", whose queries choose what they read",
                 .expected = "a policy that evicts",
                 .hint = "bench decode measures it"});
  }
  const ScoreRequest prefix = score_request(model, one, std::min(n, tokens_to_fill(policy, n) + 128), n, chunk);
  return check_record(model, record_run(model, forced_request(model, prefix)), "score");
}

std::string score_row_text(const json& row) {
  char text[320];
  std::snprintf(text, sizeof text,
                "%-50s %9.3f s (%.3f ... %.3f) = %.3f ms a token, %.1f x floor  NLL %.4f  peak %.2f GiB  error %.1e",
                row["policy"].get<std::string>().c_str(), row["seconds"]["median"].get<double>(),
                row["seconds"]["min"].get<double>(), row["seconds"]["max"].get<double>(),
                row["ms_per_token"].get<double>(), row["ratio_to_floor"].get<double>(), row["nll"].get<double>(),
                row["peak_bytes"].get<double>() / (1 << 30), row["check_error"].get<double>());
  return text;
}

/// Null if cancelled.
json score_row(const LoadedModel& model, const BenchArgs& args, const BenchCase& one, int chunk, double matrix_rate,
               const JobContext& context) {
  const int n = args.prompt_tokens;
  const double error = check_score(model, one, n, chunk);
  const ScoreRequest request = score_request(model, one, n, n, chunk);
  const Hooks hooks{.cancelled = [&] { return is_cancelled(context); }, .progress = {}};
  forget_peak(model);
  double nll = 0;
  const Spread seconds = time_repeats(0, args.repeats, [&] { nll = forced_pass(model, request, hooks).nll; });
  const double floor = prompt_flops(model.config(), request.policy, n, 0) / matrix_rate;
  return {{"policy", request.policy.to_string()},
          {"prompt_tokens", n},
          {"chunk", chunk},
          {"check_error", error},
          {"seconds", to_json(seconds)},
          {"ms_per_token", seconds.median / n * 1e3},
          {"nll", nll},
          {"floor_s", floor},
          {"ratio_to_floor", seconds.median / floor},
          {"peak_bytes", peak_bytes(model)}};
}

}  // namespace

json score_bench(const JsonObject& args_json, JobContext& context) {
  const BenchArgs args(args_json, 1024, 1);
  const int n = args.prompt_tokens, chunk = static_cast<int>(args_json.integer_or("chunk", 1, 1, kMaxBenchTokens));
  const std::string kvpop = "kvpop:window=" + std::to_string(std::clamp(n / 16, 1, 256));
  const LoadedModel model = load_bench_model(args_json, context, n, kvpop.c_str());
  const double rate = measure_matrix_rate(model);
  return bench_rows(
      model, args, bench_cases(args, scored_policies(model, n)), context, {{"matrix_flops_per_s", rate}},
      [&](const BenchCase& one) -> json {
        try {
          return score_row(model, args, one, chunk, rate, context);
        } catch (const Error& error) {
          if (error.code() == ExitCode::cancelled) return nullptr;
          throw;
        }
      },
      score_row_text);
}

}  // namespace kvscope::engine
