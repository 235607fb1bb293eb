#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/decode/eviction/sequence_state.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/device_rates.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

constexpr int kWarmUpSteps = 8;
constexpr int kCheckedSteps = 4;

struct DecodeArgs : BenchArgs {
  explicit DecodeArgs(const JsonObject& args)
      : BenchArgs(args),
        max_tokens(static_cast<int>(args.integer_or("max_tokens", 64, 1, kMaxBenchTokens))),
        batch(static_cast<int>(args.integer_or("batch", 1, 1, GenerationBatch::kMaxBatch))) {}
  int n_steps() const { return kWarmUpSteps + 2 * repeats * max_tokens; }
  int max_tokens, batch;
};

/// max |a - b| / max |b| of the logits after a prefill and kCheckedSteps steps, and after a prefill of all these
/// tokens. Throws Error (internal) if that is more than rounding explains: 1e-3 in float32, 0.1 in bfloat16.
double check_steps(const LoadedModel& model, const std::string& policy, int prompt_tokens) {
  // Past the budget, so that tokens have been evicted on both sides.
  const int n = std::min(prompt_tokens, PolicySpec::parse(policy).budget_tokens(prompt_tokens) + 256);
  RunRequest request = bench_request(model, policy, n + kCheckedSteps, 0);
  // A method that lets its prompt see everything does another thing with a token of the answer. With room for all it
  // does not.
  const PolicySpec& spec = request.policy;
  if (policy_of(spec).plan(spec, spec.geometry(n + kCheckedSteps)).dense_prefill) {
    request.policy.budget = BudgetSpec{BudgetSpec::Kind::tokens, static_cast<double>(n + kCheckedSteps)};
  }
  Generation whole(model, request);
  whole.set_recording(false);
  whole.prefill({}, {.logprobs = false});
  const std::vector<std::int32_t> ids = request.prompt_ids;
  request.prompt_ids.resize(static_cast<std::size_t>(n));
  request.max_tokens = kCheckedSteps;
  Generation steps(model, request);
  steps.set_recording(false);
  steps.prefill({}, {.logprobs = false});
  for (int i = 0; i < kCheckedSteps; ++i) steps.step_forced(ids[static_cast<std::size_t>(n + i)]);
  const std::span<const float> a = steps.logits(), b = whole.logits();
  float difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  const double error = difference / largest, allowed = model.info().dtype == "float32" ? 1e-3 : 0.1;
  if (error <= allowed) return error;
  throw Error({.code = ExitCode::internal,
               .file = model.info().name,
               .where = policy,
               .found = "decode steps that differ from a prefill by " + std::to_string(error) + " of the largest logit",
               .expected = "at most " + std::to_string(allowed)});
}

/// Bytes that one step must read: every weight but the embedding's other rows and the scorer's weights once, and of
/// each of `batch` sequences the kept keys and values and, twice, the scorer's memory.
double bytes_per_step(const LoadedModel& model, const SlotCache& cache, const TokenScorer* scorer, int batch) {
  const ModelConfig& config = model.config();
  const double element = model.info().dtype == "float32" ? 4 : 2;
  double elements = static_cast<double>(model.info().n_parameters);
  if (!config.tie_word_embeddings) elements -= static_cast<double>(config.vocab_size) * config.hidden_size;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      elements += 2.0 * batch * cache.n_slots(layer, head) * config.head_dim;
    }
  }
  const double scoring = scorer != nullptr ? scorer->weight_bytes() + 2.0 * batch * scorer->memory_bytes() : 0;
  return elements * element + scoring;
}

std::string decode_row_text(const json& row) {
  char text[320];
  const json& ms = row["ms_per_step"];
  std::snprintf(text, sizeof text,
                "%-50s %8.3f ms per step (%.3f ... %.3f) = %7.1f tokens/s, %.2f x floor  recording %+.1f %%  "
                "cache %.2f MiB  peak %.2f GiB  error %.1e",
                row["policy"].get<std::string>().c_str(), ms["median"].get<double>(), ms["min"].get<double>(),
                ms["max"].get<double>(), row["decode_tokens_per_s"]["median"].get<double>(),
                row["ratio_to_floor"].get<double>(), 100 * (row["recording_ratio"].get<double>() - 1),
                row["cache_bytes"].get<double>() / (1 << 20), row["peak_bytes"].get<double>() / (1 << 30),
                row["check_error"].get<double>());
  return text;
}

/// Null if cancelled.
json bench_policy(const LoadedModel& model, const DecodeArgs& args, double read_rate, const std::string& text,
                  const JobContext& context) {
  const PolicySpec policy = PolicySpec::parse(text);
  const double error = check_steps(model, text, args.prompt_tokens);
  forget_peak(model);
  GenerationBatch runs(model, std::vector<RunRequest>(static_cast<std::size_t>(args.batch),
                                                      bench_request(model, text, args.prompt_tokens, args.n_steps())));
  runs.prefill({}, {.logprobs = false});
  const Generation& run = runs.run(0);
  const auto seconds_of = [&](int n_steps, bool recording) {
    runs.set_recording(recording);
    const double before = run.timings().decode_s;
    for (int i = 0; i < n_steps; ++i) {
      if (context.cancelled != nullptr && *context.cancelled) return -1.0;
      runs.step();
    }
    return (run.timings().decode_s - before) / n_steps;
  };
  seconds_of(kWarmUpSteps, true);
  // A CPU's memory is shared with whatever else the machine does, and with the neighbours of a virtual one: it gives 40
  // GB/s in one second and 65 in the next, so it is read before and after each repetition. A GPU's is its own: measured
  // once, and not beside a run, whose memory it would count.
  const auto rate_now = [&] { return model.weights().device.is_cpu() ? measure_read_rate(model) : read_rate; };
  std::vector<double> plain, recorded, rates;
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    const double rate_before = rate_now(), plain_s = seconds_of(args.max_tokens, false);
    rates.push_back((rate_before + rate_now()) / 2);
    const double recorded_s = seconds_of(args.max_tokens, true);
    if (plain_s < 0 || recorded_s < 0) return nullptr;
    plain.push_back(plain_s * 1e3);
    recorded.push_back(recorded_s * 1e3);
  }
  const Spread ms = spread_of(plain), recorded_ms = spread_of(recorded);
  const TokenScorer* scorer = ActivePolicy(policy, args.prompt_tokens, model).scorer();
  const double bytes = bytes_per_step(model, run.cache(), scorer, args.batch);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < plain.size(); ++i) ratios.push_back(plain[i] * rates[i] / bytes / 1e3);
  return {{"policy", policy.to_string()},
          {"prompt_tokens", args.prompt_tokens},
          {"batch", args.batch},
          {"check_error", error},
          {"ms_per_step", to_json(ms)},
          {"ms_per_step_recording", to_json(recorded_ms)},
          {"recording_ratio", recorded_ms.median / ms.median},
          {"decode_tokens_per_s",
           to_json(Spread{args.batch * 1e3 / ms.median, args.batch * 1e3 / ms.max, args.batch * 1e3 / ms.min})},
          {"prefill_tokens_per_s", args.prompt_tokens / run.timings().prefill_s},
          {"bytes_per_step", bytes},
          {"read_bytes_per_s", to_json(spread_of(rates))},
          {"floor_ms", bytes / spread_of(rates).median * 1e3},
          {"ratio_to_floor", spread_of(ratios).median},
          {"cache_bytes", run.cache_bytes()},
          {"peak_bytes", peak_bytes(model)}};
}

}  // namespace

json decode_bench(const JsonObject& args_json, JobContext& context) {
  const DecodeArgs args(args_json);
  const LoadedModel model =
      load_bench_model(args_json, context, args.prompt_tokens + args.n_steps(), "kvpop:window=256");
  if (args.prompt_tokens + args.n_steps() > model.config().max_positions) {
    throw Error({.code = ExitCode::usage,
                 .file = "--prompt-tokens and --max-tokens",
                 .found = std::to_string(args.prompt_tokens) + " and 2 x " + std::to_string(args.repeats) +
                          " repeats of " + std::to_string(args.max_tokens),
                 .expected = "together at most " + std::to_string(model.config().max_positions) +
                             " positions, the model's context",
                 .hint = "use fewer tokens or fewer --repeats"});
  }
  const double read_rate = measure_read_rate(model);
  return bench_rows(
      model, args, context,
      {{"read_bytes_per_s", read_rate}, {"prompt_tokens", args.prompt_tokens}, {"max_tokens", args.max_tokens}},
      [&](const std::string& policy) { return bench_policy(model, args, read_rate, policy, context); },
      decode_row_text);
}

}  // namespace kvscope::engine
