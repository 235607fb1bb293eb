#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/decode/dense_teacher.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/device_rates.h"
#include "engine/jobs/bench/floors.h"
#include "engine/model/ops.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

/// Seconds of all layers: one is measured, with random numbers, and multiplied.
Spread measure_transposed(const LoadedModel& model, int n, int window, int n_repeats) {
  const c10::InferenceMode no_gradients;
  const ModelConfig& config = model.config();
  const at::TensorOptions options = at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype),
                          floats = options.dtype(at::kFloat);
  const at::Tensor q = at::randn({n, config.n_heads, config.head_dim}, options),
                   k = at::randn({n, config.n_kv_heads, config.head_dim}, options),
                   lse = at::full({config.n_heads, n}, std::log(static_cast<double>(n)), floats);
  ops::FutureMasses masses{.sum = at::zeros({config.n_heads, n}, floats)};
  masses.square = at::zeros_like(masses.sum), masses.most = at::zeros_like(masses.sum);
  Spread seconds = time_repeats(1, n_repeats, [&] {
    ops::future_attention(q, k, lse, masses, 0, AttentionScores(config.attention_scale(0)), window);
    wait_for_device(model);
  });
  for (double* value : {&seconds.median, &seconds.min, &seconds.max}) *value *= config.n_layers;
  return seconds;
}

std::string oracle_row_text(const json& row) {
  char text[320];
  std::snprintf(text, sizeof text,
                "oracle of %d tokens, window %d: %.4f s (%.4f ... %.4f) = %.2f x floor; of these the transposed pass "
                "%.4f s = %.2f x its floor  peak %.2f GiB  error %.1e",
                row["prompt_tokens"].get<int>(), row["window"].get<int>(), row["seconds"]["median"].get<double>(),
                row["seconds"]["min"].get<double>(), row["seconds"]["max"].get<double>(),
                row["ratio_to_floor"].get<double>(), row["transposed_s"]["median"].get<double>(),
                row["transposed_ratio_to_floor"].get<double>(), row["peak_bytes"].get<double>() / (1 << 30),
                row["check_error"].get<double>());
  return text;
}

}  // namespace

json oracle_bench(const JsonObject& args_json, JobContext& context) {
  const BenchArgs args(args_json);
  const LoadedModel model = load_bench_model(args_json, context, args.prompt_tokens, "streaming");
  const double rate = measure_matrix_rate(model);
  const int n = args.prompt_tokens;
  const std::string usual = "streaming:window=" + std::to_string(std::clamp(n / 4, 1, 256));
  return bench_rows(
      model, args, bench_cases(args, {usual}), context, {{"matrix_flops_per_s", rate}},
      [&](const BenchCase& one) -> json {
        const int window = PolicySpec::parse(one.policy).geometry(n).window;
        const std::vector<std::int32_t> ids = bench_request(model, one.policy, n, 0).prompt_ids;
        const double error = check_oracle(model, std::span(ids).first(std::min(n, window + 256)), window);
        forget_peak(model);
        bool whole = true;
        const Spread seconds = time_repeats(1, args.repeats, [&] {
          DenseTeacher teacher(model, n, window);
          whole = whole && teacher.absorb(ids, [&] { return is_cancelled(context); });
          if (whole) teacher.future();  // waits for the device
        });
        if (!whole) return nullptr;
        const std::int64_t peak = peak_bytes(model);
        const Spread transposed = measure_transposed(model, n, window, args.repeats);
        const double once_more = transposed_flops(model.config(), n, window),
                     flops = dense_prompt_flops(model.config(), n) + once_more;
        return {{"policy", one.policy},
                {"prompt_tokens", n},
                {"window", window},
                {"check_error", error},
                {"seconds", to_json(seconds)},
                {"flops", flops},
                {"floor_s", flops / rate},
                {"ratio_to_floor", seconds.median * rate / flops},
                {"transposed_s", to_json(transposed)},
                {"transposed_flops", once_more},
                {"transposed_floor_s", once_more / rate},
                {"transposed_ratio_to_floor", once_more > 0 ? transposed.median * rate / once_more : 0},
                {"peak_bytes", peak}};
      },
      oracle_row_text);
}

}  // namespace kvscope::engine
