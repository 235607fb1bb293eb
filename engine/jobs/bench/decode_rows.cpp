#include "engine/jobs/bench/decode_rows.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/device_rates.h"
#include "engine/jobs/bench/floors.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

constexpr int kWarmUpSteps = 8;
constexpr int kCheckedSteps = 4;

std::vector<RunRequest> requests(const LoadedModel& model, const BenchCase& one, int prompt_tokens, int max_tokens) {
  std::vector<RunRequest> all;
  for (int i = 0; i < one.batch; ++i) all.push_back(bench_request(model, one.policy, prompt_tokens, max_tokens, i));
  return all;
}

/// Sequences that are decoded together, their prompts read.
class Sequences {
 public:
  Sequences(const LoadedModel& model, const std::vector<RunRequest>& requests, bool recording)
      : batch_(model, static_cast<int>(requests.size())) {
    for (const RunRequest& request : requests) {
      runs_.emplace_back(model, request);
      runs_.back().set_recording(recording);
      runs_.back().prefill({}, {.logprobs = false});
    }
    for (Generation& run : runs_) batch_.join(run);
  }

  const Generation& operator[](int index) const { return runs_[static_cast<std::size_t>(index)]; }
  void set_recording(bool on) {
    for (Generation& run : runs_) run.set_recording(on);
  }
  void step() {
    for (const GenerationBatch::Step& step : batch_.step())
      if (step.error) std::rethrow_exception(step.error);
  }
  double attention_seconds(int repeats) { return batch_.attention_seconds(repeats); }
  double kept_bytes(const LoadedModel& model) const {
    double bytes = 0;
    for (const Generation& run : runs_) bytes += engine::kept_bytes(model, run.cache());
    return bytes;
  }

 private:
  std::vector<Generation> runs_;
  GenerationBatch batch_;
};

std::string decode_row_text(const json& row) {
  char text[400], of_full[48] = "";
  const json& ms = row["ms_per_step"];
  std::string name = row["policy"].get<std::string>();
  if (const int batch = row["batch"].get<int>(); batch > 1) name += ", batch " + std::to_string(batch);
  if (row.contains("of_full"))
    std::snprintf(of_full, sizeof of_full, "  %+.1f %% of full", 100 * (row["of_full"].get<double>() - 1));
  std::snprintf(
      text, sizeof text,
      "%-50s %8.3f ms per step (%.3f ... %.3f; attention %.3f) = %7.1f tokens/s, %.2f x floor%s  recording %+.1f %%  "
      "cache %.2f MiB  peak %.2f GiB  error %.1e",
      name.c_str(), ms["median"].get<double>(), ms["min"].get<double>(), ms["max"].get<double>(),
      row["attention_ms"]["median"].get<double>(), row["decode_tokens_per_s"]["median"].get<double>(),
      row["ratio_to_floor"].get<double>(), of_full, 100 * (row["recording_ratio"].get<double>() - 1),
      row["cache_bytes"].get<double>() / (1 << 20), row["peak_bytes"].get<double>() / (1 << 30),
      row["check_error"].get<double>());
  return text;
}

/// Null if cancelled.
json decode_row(const LoadedModel& model, const DecodeArgs& args, double read_rate, const BenchCase& one,
                const JobContext& context) {
  const PolicySpec policy = PolicySpec::parse(one.policy);
  const double error = check_steps(model, one.policy, args.prompt_tokens, one.batch);
  forget_peak(model);
  Sequences runs(model, requests(model, one, args.prompt_tokens, args.n_steps()), true);
  const Generation& run = runs[one.batch - 1];  // whose time covers the whole step
  const auto seconds_of = [&](int n_steps, bool recording) {
    runs.set_recording(recording);
    const double before = run.timings().decode_s;
    for (int i = 0; i < n_steps; ++i) {
      if (is_cancelled(context)) return -1.0;
      runs.step();
    }
    return (run.timings().decode_s - before) / n_steps;
  };
  seconds_of(kWarmUpSteps, true);
  // A CPU's memory is shared with whatever else the machine does, and with the neighbours of a virtual one: it gives 40
  // GB/s in one second and 65 in the next, so it is read before and after each repetition. A GPU's is its own: measured
  // once, and not beside a run, whose memory it would count.
  const auto rate_now = [&] { return model.weights().device.is_cpu() ? measure_read_rate(model) : read_rate; };
  std::vector<double> plain, recorded, rates, attention, rest;
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    const double rate_before = rate_now(), plain_s = seconds_of(args.max_tokens, false);
    rates.push_back((rate_before + rate_now()) / 2);
    if (plain_s > 0) attention.push_back(runs.attention_seconds(args.max_tokens) * 1e3);
    const double recorded_s = seconds_of(args.max_tokens, true);
    if (plain_s < 0 || recorded_s < 0) return nullptr;
    plain.push_back(plain_s * 1e3);
    rest.push_back(plain.back() - attention.back());
    recorded.push_back(recorded_s * 1e3);
  }
  const Spread ms = spread_of(plain), recorded_ms = spread_of(recorded);
  const TokenScorer* scorer = scorer_of_steps(model, policy, args.prompt_tokens);
  const double bytes = bytes_per_step(model, runs.kept_bytes(model) / one.batch, scorer, one.batch);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < plain.size(); ++i) ratios.push_back(plain[i] * rates[i] / bytes / 1e3);
  return {{"policy", policy.to_string()},
          {"prompt_tokens", args.prompt_tokens},
          {"batch", one.batch},
          {"check_error", error},
          {"ms_per_step", to_json(ms)},
          {"attention_ms", to_json(spread_of(attention))},
          {"rest_ms", to_json(spread_of(rest))},
          {"ms_per_step_recording", to_json(recorded_ms)},
          {"recording_ratio", recorded_ms.median / ms.median},
          {"decode_tokens_per_s",
           to_json(Spread{one.batch * 1e3 / ms.median, one.batch * 1e3 / ms.max, one.batch * 1e3 / ms.min})},
          {"prefill_tokens_per_s", args.prompt_tokens / run.timings().prefill_s},
          {"bytes_per_step", bytes},
          {"read_bytes_per_s", to_json(spread_of(rates))},
          {"floor_ms", bytes / spread_of(rates).median * 1e3},
          {"ratio_to_floor", spread_of(ratios).median},
          {"cache_bytes", run.cache_bytes()},
          {"weight_bytes", weight_bytes(model)},
          {"peak_bytes", peak_bytes(model)}};
}

}  // namespace

DecodeArgs::DecodeArgs(const JsonObject& args)
    : BenchArgs(args), max_tokens(static_cast<int>(args.integer_or("max_tokens", 64, 1, kMaxBenchTokens))) {}

int DecodeArgs::n_steps() const { return kWarmUpSteps + 2 * repeats * max_tokens; }

double check_steps(const LoadedModel& model, const std::string& policy, int prompt_tokens, int batch) {
  // Past the first eviction, so that tokens have been evicted on both sides.
  const int n = std::min(prompt_tokens, tokens_to_fill(PolicySpec::parse(policy), prompt_tokens) + 256);
  const int n_all = n + kCheckedSteps;
  std::vector<RunRequest> all = requests(model, {policy, batch}, n, kCheckedSteps);
  // A method that lets its prompt see everything does another thing with a token of the answer, and one that looks ahead
  // sees another text. With room for all they do not.
  for (RunRequest& request : all) {
    PolicySpec& spec = request.policy;
    const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(n_all));
    if (plan.dense_prefill || plan.source == ScoreSource::future)
      spec.budget = BudgetSpec{BudgetSpec::Kind::tokens, static_cast<double>(n_all)};
    if (plan.selection.tokens > 0) spec.values["read"] = n_all + kPageSize;  // every page
  }
  Sequences steps(model, all, false);
  for (int i = 0; i < kCheckedSteps; ++i) steps.step();
  double error = 0;
  for (int i = 0; i < batch; i += std::max(1, batch - 1)) {
    RunRequest request = all[static_cast<std::size_t>(i)];
    request.prompt_ids = steps[i].ids();
    request.max_tokens = 0;
    Generation whole(model, request);
    whole.set_recording(false);
    whole.prefill({}, {.logprobs = false});
    error = std::max(error, check_close(steps[i].logits(), whole.logits(), model, "decode", policy));
  }
  return error;
}

json decode_rows(const LoadedModel& model, const DecodeArgs& args, const std::vector<BenchCase>& cases,
                 bool beside_full, JobContext& context) {
  const double read_rate = measure_read_rate(model);
  std::map<int, double> full_ms;  // by batch
  return bench_rows(
      model, args, cases, context,
      {{"read_bytes_per_s", read_rate}, {"prompt_tokens", args.prompt_tokens}, {"max_tokens", args.max_tokens}},
      [&](const BenchCase& one) {
        json row = decode_row(model, args, read_rate, one, context);
        if (!beside_full || row.is_null()) return row;
        const double ms = row["ms_per_step"]["median"];
        if (one.policy == "full") full_ms[one.batch] = ms;
        row["of_full"] = ms / full_ms.at(one.batch);
        return row;
      },
      decode_row_text);
}

}  // namespace kvscope::engine
