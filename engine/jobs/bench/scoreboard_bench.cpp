#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "engine/core/support/error.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/bench.h"
#include "engine/jobs/bench/floors.h"
#include "engine/jobs/bench/shapes.h"
#include "engine/model/device.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

struct BoardRow {
  const char* bench;
  const char* shape;
  int prompt_tokens, max_tokens, repeats, batch;
  const char* policy;
  double goal;  // of the ratio to the floor; 0: none
};

constexpr const char* kKvpop = "kvpop:budget=4096,sinks=4,window=256";
constexpr const char* kStreaming = "streaming:sinks=4,window=4092";
constexpr const char* kRagged = "random:admit=0.25,sinks=4,window=256";  // as a gate with a threshold keeps tokens

constexpr const char* kBatchKvpop = "kvpop:budget=512,sinks=4,window=128";
constexpr const char* kPooledKvpop = "kvpop:budget=1024,capacity=pooled,interval=32,sinks=4,window=64";
constexpr const char* kSmallKvpop = "kvpop:budget=256,sinks=4,window=64";

constexpr BoardRow kGpuRows[] = {
    {"decode", "qwen3-8b", 1024, 64, 5, 1, "full", 1.15},
    {"decode", "qwen3-8b", 32768, 64, 5, 1, "full", 0},
    {"decode", "qwen3-8b", 32768, 64, 5, 1, kRagged, 0},
    {"decode", "qwen3-8b", 131072, 32, 3, 1, "full", 1.10},
    {"decode", "qwen3-8b", 131072, 32, 3, 1, kKvpop, 1.2},
    {"decode", "qwen3-8b", 131072, 32, 3, 1, kStreaming, 0},
    {"decode", "qwen3-8b", 131072, 16, 3, 1, kRagged, 1.22},
    {"decode", "qwen3-8b", 2048, 16, 5, 8, "full", 0},
    {"decode", "qwen3-8b", 2048, 16, 5, 16, "full", 1.35},
    {"decode", "qwen3-8b", 1024, 16, 5, 32, "full", 1.35},
    {"decode", "qwen3-8b", 2048, 16, 5, 16, kBatchKvpop, 1.66},
    {"decode", "qwen3-8b", 16384, 8, 3, 16, "full", 1.21},
    {"decode", "qwen3-8b", 32768, 8, 3, 16, kRagged, 1.38},
    {"decode", "qwen3-30b-a3b", 1024, 32, 5, 1, "full", 1.3},
    {"decode", "gpt-oss-20b", 1024, 32, 5, 1, "full", 1.3},
    {"decode", "gemma-3-12b", 1024, 32, 5, 1, "full", 1.3},
    {"prefill", "qwen3-8b", 32768, 0, 3, 1, "full", 1.15},
    {"prefill", "qwen3-8b", 32768, 0, 3, 1, kKvpop, 1.45},
    {"prefill", "qwen3-8b", 32768, 0, 3, 1, kStreaming, 0},
    {"prefill", "qwen3-8b", 32768, 0, 3, 1, kRagged, 0},
    {"prefill", "qwen3-8b", 131072, 0, 2, 1, kKvpop, 1.53},
    {"prefill", "qwen3-8b", 131072, 0, 2, 1, kRagged, 1.34},
    {"oracle", "qwen3-8b", 16384, 0, 3, 1, "streaming:window=256", 2.0},
    {"decode", "qwen3-0.6b", 1024, 64, 5, 1, "full", 1.79},
    {"decode", "smollm2-135m", 1024, 64, 5, 1, "full", 5.07},
    {"decode", "smollm2-135m", 1024, 64, 5, 1, kSmallKvpop, 0},
    {"decode", "smollm2-135m", 1024, 64, 5, 8, "full", 0},
    {"decode", "smollm2-135m", 1024, 64, 5, 32, "full", 3.58},
    {"decode", "smollm2-135m", 1024, 64, 5, 32, kSmallKvpop, 9.6},
    {"prefill", "smollm2-135m", 1024, 0, 5, 1, "full", 0},
    {"prefill", "smollm2-135m", 1024, 0, 5, 1, kSmallKvpop, 0},
    {"capture", "smollm2-135m", 512, 64, 1, 1, kSmallKvpop, 0},
    {"score", "smollm2-135m", 4096, 0, 1, 1, "snapkv:budget=1024", 0},
    {"score", "smollm2-135m", 4096, 0, 1, 1, "expected-attention:budget=1024", 0},
    {"score", "smollm2-135m", 4096, 0, 1, 1, "tova:budget=1024", 0},
    {"score", "smollm2-135m", 4096, 0, 1, 1, "h2o:budget=1024,window=256", 0},
    {"score", "smollm2-135m", 4096, 0, 1, 1, kPooledKvpop, 0},
};

/// The same kinds of rows, small.
constexpr BoardRow kCpuRows[] = {
    {"decode", "kvscope-tiny", 512, 16, 5, 1, "full", 0},
    {"decode", "kvscope-tiny", 512, 16, 5, 1, "kvpop:budget=128,sinks=4,window=32", 0},
    {"decode", "kvscope-tiny", 512, 8, 3, 4, "full", 0},
    {"decode", "kvscope-tiny", 512, 8, 3, 4, "random:admit=0.25,sinks=4,window=32", 0},
    {"prefill", "kvscope-tiny", 512, 0, 3, 1, "full", 0},
    {"prefill", "kvscope-tiny", 512, 0, 3, 1, "kvpop:budget=128,sinks=4,window=32", 0},
    {"oracle", "kvscope-tiny", 512, 0, 3, 1, "streaming:window=64", 0},
    {"capture", "kvscope-tiny", 256, 16, 1, 1, "kvpop:budget=128,sinks=4,window=32", 0},
    {"score", "kvscope-tiny", 256, 0, 1, 1, "tova:budget=64", 0},
    {"score", "kvscope-tiny", 256, 0, 1, 1, "snapkv:budget=64,window=16", 0},
};

json args_of(const BoardRow& row, const std::string& device) {
  json args = {{"name", row.bench},      {"shape", row.shape},   {"prompt_tokens", row.prompt_tokens},
               {"repeats", row.repeats}, {"policy", row.policy}, {"device", device}};
  if (row.max_tokens > 0) args["max_tokens"] = row.max_tokens;
  if (row.batch > 1) args["batch"] = row.batch;
  if (std::string_view(row.bench) == "capture" && device != "cpu") args["prompts"] = 64;
  return args;
}

std::string command_of(const json& args) {
  std::string text = "kvscope bench " + args["name"].get<std::string>();
  for (const char* key : {"shape", "prompt_tokens", "max_tokens", "prompts", "batch", "repeats", "policy", "device"}) {
    if (!args.contains(key)) continue;
    std::string option = key;
    std::ranges::replace(option, '_', '-');
    text += " --" + option + " " + (args[key].is_string() ? args[key].get<std::string>() : args[key].dump());
  }
  return text;
}

/// "decode qwen3-8b, 2048 tokens, batch 16, full"
std::string title_of(const BoardRow& row) {
  return std::string(row.bench) + " " + row.shape + ", " + std::to_string(row.prompt_tokens) + " tokens" +
         (row.batch > 1 ? ", batch " + std::to_string(row.batch) : "") + ", " + row.policy;
}

/// About what a row takes of a GPU in bfloat16: weights and caches of all tokens, a tenth more, and 4 GiB of work memory.
double bytes_needed(const BoardRow& row) {
  const ModelConfig config = shape_config(row.shape);
  const double vocabulary = static_cast<double>(config.vocab_size) * config.hidden_size,
               weights = layer_weights(config) + vocabulary * (config.tie_word_embeddings ? 1 : 2),
               token = 2.0 * config.n_layers * config.n_kv_heads * config.head_dim,
               tokens = row.batch * (row.prompt_tokens + 2.0 * row.repeats * row.max_tokens);
  return 2.2 * (weights + token * tokens) + 4.0 * (1 << 30);
}

std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f GiB", bytes / (1 << 30));
  return text;
}

/// Why a row cannot be measured here; empty if it can.
std::string obstacle(const BoardRow& row, bool on_gpu, double free_bytes) {
  if (!on_gpu) return "no GPU";
  const double needed = bytes_needed(row);
  return needed > free_bytes ? "needs about " + gib(needed) + ", " + gib(free_bytes) + " are free" : "";
}

std::string board_row_text(const json& row) {
  char text[320], goal[16] = "-";
  if (row["goal"].is_number()) std::snprintf(goal, sizeof goal, "%.2f", row["goal"].get<double>());
  std::snprintf(text, sizeof text, "%-82s %10.3f ms  floor %10.3f ms  ratio %7.2f  goal %s",
                row["row"].get<std::string>().c_str(), row["measured_ms"].get<double>(), row["floor_ms"].get<double>(),
                row["ratio_to_floor"].get<double>(), goal);
  return text;
}

/// What the scoreboard has of a benchmark's row.
json board_row(const BoardRow& row, const json& measured, const std::string& command) {
  const bool is_step = measured.contains("ms_per_step");
  return {{"row", title_of(row)},
          {"measured_ms", is_step ? measured["ms_per_step"]["median"].get<double>()
                                  : measured["seconds"]["median"].get<double>() * 1e3},
          {"floor_ms", is_step ? measured["floor_ms"].get<double>() : measured["floor_s"].get<double>() * 1e3},
          {"ratio_to_floor", measured["ratio_to_floor"]},
          {"goal", row.goal > 0 ? json(row.goal) : json()},
          {"check_error", measured["check_error"]},
          {"command", command}};
}

/// Index of the GPU; -1: the CPU. Throws Error for a device that is none, or is not there.
int gpu_of(const std::string& device) {
  if (device == "cpu" || (device == "auto" && cuda_status().n_devices == 0)) return -1;
  int index = device == "auto" || device == "cuda" ? 0 : -1;
  if (device.starts_with("cuda:")) std::from_chars(device.data() + 5, device.data() + device.size(), index);
  if (index < 0)
    throw Error(
        {.code = ExitCode::usage, .file = "--device", .found = device, .expected = "auto, cpu, cuda or cuda:N"});
  open_cuda(index);
  return index;
}

}  // namespace

json scoreboard_bench(const JsonObject& args_json, JobContext& context) {
  for (const char* key :
       {"shape", "model", "policy", "batch", "chunk", "prompt_tokens", "max_tokens", "prompts", "repeats"}) {
    if (!args_json.has(key)) continue;
    throw Error({.code = ExitCode::usage, .file = "bench scoreboard", .found = key, .expected = "--device alone"});
  }
  const std::string asked = args_json.text_or("device", "auto");
  const int gpu = gpu_of(asked);
  const bool on_gpu = gpu >= 0;
  const std::string device = on_gpu ? "cuda:" + std::to_string(gpu) : "cpu";
  const double free_bytes = on_gpu ? static_cast<double>(cuda_device(gpu).free_bytes) : 0;
  json rows = json::array(), missing = json::array();
  const auto leave_out = [&](const BoardRow& row, const std::string& why, const std::string& command) {
    missing.push_back({{"row", title_of(row)}, {"reason", why}, {"command", command}});
  };
  JobContext of_row = context;
  of_row.row = nullptr;
  const auto measure = [&](const BoardRow& row) {
    const json args = args_of(row, device);
    const json result = bench_job(args, of_row);
    give_back_cached_memory();  // the next row is of another size
    if (result["status"] != "complete") return false;
    rows.push_back(board_row(row, result["rows"].at(0), command_of(args)));
    if (context.row) context.row(board_row_text(rows.back()), rows.back());
    return true;
  };
  std::vector<BoardRow> wanted_rows;
  for (const BoardRow& row : kGpuRows) {
    const std::string why = obstacle(row, on_gpu, free_bytes);
    if (why.empty()) wanted_rows.push_back(row);
    if (!why.empty()) leave_out(row, why, command_of(args_of(row, "cuda")));
  }
  if (!on_gpu) wanted_rows.assign(std::begin(kCpuRows), std::end(kCpuRows));
  for (const BoardRow& row : wanted_rows) {
    try {
      if (is_cancelled(context) || !measure(row)) return {{"status", "cancelled"}, {"rows", rows}};
    } catch (const Error& error) {
      leave_out(row, error.what(), command_of(args_of(row, device)));
    }
  }
  return {{"status", "complete"}, {"device", device}, {"rows", std::move(rows)}, {"missing", std::move(missing)}};
}

}  // namespace kvscope::engine
