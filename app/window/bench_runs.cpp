#include "app/window/bench_runs.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

RunRecord made_up_run(int n_layers, int n_kv_heads, int n_tokens, bool with_scores) {
  constexpr int kWindow = 256, kSinks = 4;
  RunRecord run;
  run.model = {.name = "made-up", .architecture = "Qwen3ForCausalLM", .dtype = "bfloat16", .device = "none"};
  run.model.n_layers = n_layers, run.model.n_heads = 4 * n_kv_heads, run.model.n_kv_heads = n_kv_heads;
  run.model.head_dim = 128, run.model.vocab_size = 151936, run.model.max_positions = n_tokens;
  run.policy = PolicySpec::parse("threshold:threshold=0.5,sinks=4,window=256");
  run.n_positions = n_tokens;
  run.prompt_len = n_tokens / 2;
  run.ids.assign(static_cast<std::size_t>(n_tokens), 5);
  for (int t = 0; t < n_tokens; ++t) run.pieces.push_back(t % 11 == 0 ? "key" : " word");
  run.logprobs.assign(static_cast<std::size_t>(n_tokens), -1.f);
  run.logprobs[0] = std::numeric_limits<float>::quiet_NaN();
  run.evict_at = LifetimeMap(n_layers, n_kv_heads);
  if (with_scores) run.scores = HeadSeries<float>(n_layers, n_kv_heads);
  std::uint32_t mixed = 1;
  for (int head = 0; head < n_layers * n_kv_heads; ++head) {
    const int layer = head / n_kv_heads, kv_head = head % n_kv_heads, keeps = 2 + head % 5;
    auto& row = run.evict_at.row(layer, kv_head);
    row.resize(static_cast<std::size_t>(n_tokens));
    for (int t = 0; t < n_tokens; ++t) {
      const bool kept = t < kSinks || (t * 7 + head) % keeps == 0;
      row[static_cast<std::size_t>(t)] = t + kWindow >= n_tokens ? kUndecided : kept ? kNever : t + kWindow;
    }
    for (int t = 0; with_scores && t < n_tokens; ++t) {
      mixed = mixed * 1664525u + 1013904223u;
      run.scores.row(layer, kv_head).push_back(static_cast<float>(mixed >> 8) / 16777216.f);
    }
  }
  run.n_queries = n_tokens;
  run.status = RunStatus::running;
  return run;
}

std::string write_bench_trace(int megabytes, int n_layers, int n_kv_heads, int n_tokens) {
  // Of scores and lifetimes a packed trace has 3.5 bytes a token and head, measured.
  const double tokens = megabytes * 1e6 / (3.5 * n_layers * n_kv_heads);
  const int n_runs = static_cast<int>(std::clamp(std::ceil(tokens / n_tokens), 1.0, 64.0));
  RunRecord run = made_up_run(n_layers, n_kv_heads, static_cast<int>(std::max(64.0, tokens / n_runs)), true);
  finish_run(run, RunStatus::complete);
  const auto path = std::filesystem::temp_directory_path() / ("kvscope-bench-" + std::to_string(::getpid()) + ".h5");
  TraceWriter writer(path, run.model, {.max_runs = n_runs, .max_positions = run.n_positions});
  for (int i = 0; i < n_runs; ++i) writer.add(run);
  writer.finish();
  return path.string();
}

}  // namespace kvscope::app
