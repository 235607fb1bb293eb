#include "engine/core/record/run_end.h"

#include <algorithm>

namespace kvscope {

std::string describe_end(const RunRecord& run) {
  const bool complete = run.status == RunStatus::complete;
  const bool in_prompt = run.n_queries > 0 && run.n_queries < run.prompt_len;
  const int n = in_prompt ? run.n_queries : run.n_tokens();
  std::string text(to_string(run.status));
  if (!complete || n < run.n_positions) {
    text += (run.status == RunStatus::running ? ", " : " after ") + std::to_string(n) + " of " +
            (complete ? "at most " : "") + std::to_string(std::max(n, run.n_positions)) + " tokens";
    if (!in_prompt && run.prompt_len > 0 && run.prompt_len < n)
      text += ", " + std::to_string(run.prompt_len) + " of them the prompt";
  }
  return run.message.empty() ? text : text + ": " + run.message;
}

bool evicts_by(const RunRecord& run, std::int32_t q) {
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      const auto misses = [q](std::int32_t evict_at) { return evict_at != kUndecided && evict_at <= q; };
      if (!run.is_local_by_model(layer, head) && std::ranges::any_of(run.evict_at.row(layer, head), misses))
        return true;
    }
  }
  return false;
}

}  // namespace kvscope
