#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/core/support/seconds_since.h"
#include "engine/decode/attention_clock.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/device_rates.h"
#include "engine/jobs/bench/floors.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

/// Tokens of the prefix that is checked: a while beyond the first eviction, and on CUDA enough for chunks that a library
/// serves.
int tokens_to_check(const LoadedModel& model, const PolicySpec& policy, int prompt_tokens) {
  const int beyond = model.info().device == "cpu" ? 256 : 4096;
  return std::min(prompt_tokens, tokens_to_fill(policy, prompt_tokens) + beyond);
}

struct PrefillArgs : BenchArgs {
  explicit PrefillArgs(const JsonObject& args)
      : BenchArgs(args), chunk(static_cast<int>(args.integer_or("chunk", 0, 0, kMaxBenchTokens))) {}
  int chunk;
};

/// What does not depend on the policy.
struct Limits {
  double matrix_rate;
  Spread products, attention;
  const char* backend = "";
};

Limits measure_limits(const LoadedModel& model, const PrefillArgs& args) {
  Limits limits;
  limits.matrix_rate = measure_matrix_rate(model);
  const int chunk = std::min(args.prompt_tokens, args.chunk > 0 ? args.chunk : 8192);
  limits.products = measure_layer_products(model, model.config(), chunk, args.prompt_tokens, args.repeats);
  limits.attention = measure_dense_attention(model, model.config(), args.prompt_tokens, args.repeats, &limits.backend);
  return limits;
}

std::string prefill_row_text(const json& row) {
  char text[320];
  std::snprintf(
      text, sizeof text,
      "%-46s %9.0f tokens/s (%.0f ... %.0f)  %8.4f s = %.2f x floor, %.2f x library  peak %.2f GiB  error %.1e",
      row["policy"].get<std::string>().c_str(), row["tokens_per_s"]["median"].get<double>(),
      row["tokens_per_s"]["min"].get<double>(), row["tokens_per_s"]["max"].get<double>(),
      row["seconds"]["median"].get<double>(), row["ratio_to_floor"].get<double>(),
      row["ratio_to_library"].get<double>(), row["peak_bytes"].get<double>() / (1 << 30),
      row["check_error"].get<double>());
  return text;
}

/// Without the warm-up; null where the prompt passed as steps, whose attention was not measured apart.
json spread_json(const std::vector<double>& with_warm_up) {
  const std::vector<double> values(with_warm_up.begin() + 1, with_warm_up.end());
  if (std::ranges::any_of(values, [](double v) { return std::isnan(v); }))
    return {{"median", nullptr}, {"min", nullptr}, {"max", nullptr}};
  return to_json(spread_of(values));
}

json bench_policy(const LoadedModel& model, const PrefillArgs& args, const Limits& limits, const std::string& text) {
  const ModelConfig& config = model.config();
  const PolicySpec policy = PolicySpec::parse(text);
  const int n_checked = tokens_to_check(model, policy, args.prompt_tokens), third = (n_checked + 2) / 3;
  const double error =
      check_prefill(model, bench_request(model, text, n_checked, 0),
                    {.chunk = args.chunk > 0 ? std::min(args.chunk, third) : third, .logprobs = false});

  forget_peak(model);
  std::int64_t cache_bytes = 0;
  double kept = 0;
  std::vector<double> attention_s, rest_s;  // of the warm-up too
  const Spread seconds = time_repeats(1, args.repeats, [&] {
    const auto start = std::chrono::steady_clock::now();
    AttentionClock clock(model.weights().device);
    Generation run(model, bench_request(model, text, args.prompt_tokens, 0));
    run.set_recording(false);
    run.prefill({},
                {.chunk = args.chunk, .logprobs = false, .attention = &clock});  // reads the logits: the device is done
    cache_bytes = run.cache_bytes();
    kept = kept_tokens(model, run.cache());
    attention_s.push_back(clock.seconds());
    rest_s.push_back(seconds_since(start) - attention_s.back());
  });
  const double products = layer_flops_per_token(config) * args.prompt_tokens,
               attention = attention_flops(config, visible_pairs(policy, args.prompt_tokens, kept), args.prompt_tokens);
  const double floor = (products + attention) / limits.matrix_rate,
               library = limits.products.median + limits.attention.median;
  return {{"policy", policy.to_string()},
          {"chunk", args.chunk},
          {"prompt_tokens", args.prompt_tokens},
          {"check_error", error},
          {"check_tokens", n_checked},
          {"seconds", to_json(seconds)},
          {"attention_s", spread_json(attention_s)},
          {"rest_s", spread_json(rest_s)},
          {"tokens_per_s", to_json(Spread{args.prompt_tokens / seconds.median, args.prompt_tokens / seconds.max,
                                          args.prompt_tokens / seconds.min})},
          {"product_flops", products},
          {"attention_flops", attention},
          {"floor_s", floor},
          {"ratio_to_floor", seconds.median / floor},
          {"library_products_s", to_json(limits.products)},
          {"library_attention_s", to_json(limits.attention)},
          {"library_attention", limits.backend},
          {"ratio_to_library", seconds.median / library},
          {"cache_bytes", cache_bytes},
          {"weight_bytes", weight_bytes(model)},
          {"peak_bytes", peak_bytes(model)}};
}

}  // namespace

json prefill_bench(const JsonObject& args_json, JobContext& context) {
  const PrefillArgs args(args_json);
  const LoadedModel model = load_bench_model(args_json, context, args.prompt_tokens, "streaming");
  const Limits limits = measure_limits(model, args);
  json result = bench_rows(
      model, args, bench_cases(args, default_policies(model, args.prompt_tokens)), context,
      {{"matrix_flops_per_s", limits.matrix_rate}},
      [&](const BenchCase& one) { return bench_policy(model, args, limits, one.policy); }, prefill_row_text);
  if (result["status"] == "complete") result["read_bytes_per_s"] = measure_read_rate(model);
  return result;
}

}  // namespace kvscope::engine
