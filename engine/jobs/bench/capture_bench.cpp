#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/message_writer.h"
#include "engine/core/support/file.h"
#include "engine/core/support/seconds_since.h"
#include "engine/decode/run.h"
#include "engine/decode/run_batch.h"
#include "engine/decode/run_memory.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/device_rates.h"
#include "engine/jobs/bench/floors.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct CaptureArgs : BenchArgs {
  explicit CaptureArgs(const JsonObject& args)
      : BenchArgs(args, 512, 3),
        max_tokens(static_cast<int>(args.integer_or("max_tokens", 64, 1, kMaxBenchTokens))),
        prompts(static_cast<int>(args.integer_or("prompts", 4, 1, 1 << 16))),
        batch(static_cast<int>(args.integer_or("batch", 0, 1, GenerationBatch::kMaxBatch))) {}
  int max_tokens, prompts;
  int batch;  // runs at once; 0: as many as the engine takes
  int runs_at_once(const LoadedModel& model) const {
    const int most = batch > 0 ? batch : most_runs_at_once(model.weights().device.is_cuda());
    return std::min(prompts, most);
  }
};

/// Messages as the server writes them, for a reader that takes everything at once.
class Nowhere {
 public:
  Nowhere() : file_(::open("/dev/null", O_WRONLY | O_CLOEXEC)), channel_(-1, file_.get()), out(channel_) {}

 private:
  FileHandle file_;
  Channel channel_;

 public:
  MessageWriter out;  // last: what is left is written while the channel is there
};

/// Where the seconds of several runs went: side by side, so that the parts may sum to more than all.
struct CaptureTimes {
  double all = 0, prompt = 0, decode = 0, oracle = 0;
  bool whole = true;
};

enum class Capture { with_oracle, without_oracle, without_record };

/// All prompts of a repetition through one batch, as a capture hands them out.
class TimedCapture {
 public:
  TimedCapture(const LoadedModel& model, const CaptureArgs& args, const std::string& policy, Capture kind,
               const JobContext& context)
      : model_(model), args_(args), policy_(policy), kind_(kind), context_(context) {}

  CaptureTimes run() {
    const auto begin = Clock::now();
    RunBatch batch(model_, args_.runs_at_once(model_));
    batch.run([&] { return next(); });
    if (error_) std::rethrow_exception(error_);
    client_.out.flush();
    times_.all = seconds_since(begin);
    times_.decode = batch.step_seconds();
    return times_;
  }

 private:
  std::optional<BatchedRun> next() {
    if (n_begun_ == args_.prompts || !times_.whole) return std::nullopt;
    const int i = n_begun_++;
    BatchedRun run{.request = bench_request(model_, policy_, args_.prompt_tokens, args_.max_tokens, i)};
    run.request.oracle = kind_ == Capture::with_oracle;
    run.request.oracle_looks = false;  // as in a capture
    run.sink.records = kind_ != Capture::without_record;
    run.sink.hooks.cancelled = [this] { return is_cancelled(context_); };
    run.sink.started = [this, i](const RunStarted& started) { client_.out.write(protocol::to_json(started, i)); };
    run.sink.step = [this, i](StepFacts facts) { client_.out.write_facts(std::move(facts), i); };
    run.sink.oracle = [this, i](OracleFacts facts) { client_.out.write_facts(std::move(facts), i); };
    run.ended = [this, i](const RunEnded& ended) {
      client_.out.write(protocol::to_json(ended, i));
      times_.prompt += ended.timings.prefill_s;
      times_.oracle += ended.measured_s;
      times_.whole = times_.whole && ended.status == RunStatus::complete;
    };
    run.failed = [this](const std::exception_ptr& error) {
      times_.whole = false;
      error_ = error;
    };
    return run;
  }

  const LoadedModel& model_;
  const CaptureArgs& args_;
  const std::string& policy_;
  Capture kind_;
  const JobContext& context_;
  Nowhere client_;
  CaptureTimes times_;
  int n_begun_ = 0;
  std::exception_ptr error_;
};

/// Tokens that are alive at the end, over all layers and heads.
double alive(const RunRecord& run) {
  double count = 0;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      const auto& row = run.evict_at.row(layer, head);
      count += static_cast<double>(std::ranges::count_if(row, [&](std::int32_t at) { return at >= run.n_tokens(); }));
    }
  }
  return count;
}

std::string capture_row_text(const json& row) {
  char text[400];
  const auto share = [&](const char* name) { return 100 * row[name].get<double>(); };
  std::snprintf(
      text, sizeof text,
      "%-46s %d x (%d + %d) tokens, batch %d: %.3f s (%.3f ... %.3f) = %.1f ms a prompt, %.2f x floors  prompts %.0f %%  "
      "oracles %.0f %%  steps %.0f %% of the time, side by side  recording %+.1f %% without oracle  error %.1e",
      row["policy"].get<std::string>().c_str(), row["prompts"].get<int>(), row["prompt_tokens"].get<int>(),
      row["max_tokens"].get<int>(), row["batch"].get<int>(), row["seconds"]["median"].get<double>(),
      row["seconds"]["min"].get<double>(), row["seconds"]["max"].get<double>(), row["ms_per_prompt"].get<double>(),
      row["ratio_to_floor"].get<double>(), share("prompt_share"), share("oracle_share"), share("decode_share"),
      100 * (row["recording_ratio"].get<double>() - 1), row["check_error"].get<double>());
  return text;
}

struct Rates {
  double read, matrix;
};

/// Null if cancelled.
json capture_row(const LoadedModel& model, const CaptureArgs& args, const std::string& text, const Rates& rates,
                 const JobContext& context) {
  const RunRequest request = bench_request(model, text, args.prompt_tokens, args.max_tokens);
  const RunRecord first = record_run(model, request);
  const double error = check_record(model, first, "capture");
  forget_peak(model);
  std::vector<double> seconds, recorded, unrecorded;
  CaptureTimes sum;
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    const auto timed = [&](Capture kind) { return TimedCapture(model, args, text, kind, context).run(); };
    const CaptureTimes times = timed(Capture::with_oracle), with = timed(Capture::without_oracle),
                       without = timed(Capture::without_record);
    if (!times.whole || !with.whole || !without.whole) return nullptr;
    seconds.push_back(times.all);
    recorded.push_back(with.all), unrecorded.push_back(without.all);
    sum.all += times.all, sum.prompt += times.prompt, sum.decode += times.decode, sum.oracle += times.oracle;
  }
  const int n = args.prompt_tokens + args.max_tokens;
  const int window = first.policy.geometry(n).window, batch = args.runs_at_once(model);
  const TokenScorer* scorer = scorer_of_steps(model, first.policy, n);
  const double kept = alive(first) / (model.config().n_layers * model.config().n_kv_heads);
  const double prompt_s = prompt_flops(model.config(), first.policy, args.prompt_tokens, kept) / rates.matrix,
               oracle_s =
                   (dense_prompt_flops(model.config(), n) + transposed_flops(model.config(), n, window)) / rates.matrix,
               step_s = bytes_per_step(model, kept_bytes(model, alive(first)), scorer, batch) / rates.read / batch;
  const double floor = args.prompts * (prompt_s + oracle_s + args.max_tokens * step_s);
  const Spread spread = spread_of(seconds);
  return {{"policy", first.policy.to_string()},
          {"prompts", args.prompts},
          {"batch", batch},
          {"prompt_tokens", args.prompt_tokens},
          {"max_tokens", args.max_tokens},
          {"check_error", error},
          {"seconds", to_json(spread)},
          {"ms_per_prompt", spread.median / args.prompts * 1e3},
          {"decode_tokens_per_s", args.prompts * args.max_tokens / spread.median},
          {"recording_ratio", spread_of(recorded).median / spread_of(unrecorded).median},
          {"prompt_share", sum.prompt / sum.all},
          {"oracle_share", sum.oracle / sum.all},
          {"decode_share", sum.decode / sum.all},
          {"prompt_floor_s", args.prompts * prompt_s},
          {"oracle_floor_s", args.prompts * oracle_s},
          {"decode_floor_s", args.prompts * args.max_tokens * step_s},
          {"floor_s", floor},
          {"ratio_to_floor", spread.median / floor},
          {"peak_bytes", peak_bytes(model)}};
}

}  // namespace

json capture_bench(const JsonObject& args_json, JobContext& context) {
  const CaptureArgs args(args_json);
  const std::string kvpop = "kvpop:window=" + std::to_string(std::clamp(args.prompt_tokens / 8, 1, 256));
  const LoadedModel model = load_bench_model(args_json, context, args.prompt_tokens + args.max_tokens, kvpop.c_str());
  const Rates rates{measure_read_rate(model), measure_matrix_rate(model)};
  return bench_rows(
      model, args, bench_cases(args, default_policies(model, args.prompt_tokens)), context,
      {{"read_bytes_per_s", rates.read}, {"matrix_flops_per_s", rates.matrix}},
      [&](const BenchCase& one) { return capture_row(model, args, one.policy, rates, context); }, capture_row_text);
}

}  // namespace kvscope::engine
