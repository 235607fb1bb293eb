#include "engine/core/study/measure/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

void check_shapes(const ModelInfo& a, const ModelInfo& b) {
  const auto shape = [](const ModelInfo& model) {
    return model.name + ": " + std::to_string(model.n_layers) + " layers of " + std::to_string(model.n_kv_heads) +
           " KV heads, " + std::to_string(model.vocab_size) + " tokens";
  };
  if (a.n_layers == b.n_layers && a.n_kv_heads == b.n_kv_heads && a.vocab_size == b.vocab_size) return;
  throw Error({.found = "these runs cannot be compared, because their models have different shapes: " + shape(a),
               .expected = shape(b)});
}

bool is_visible(const RunRecord& run, int layer, int head, int token, int q) {
  const std::vector<std::int32_t>& row = run.evict_at.row(layer, head);
  return visible(q, token, static_cast<std::size_t>(token) < row.size() ? row[token] : kUndecided);
}

HeadMap overlap_at(const RunRecord& a, const RunRecord& b, int q) {
  HeadMap map{a.model.n_layers, a.model.n_kv_heads, {}};
  map.values.assign(static_cast<std::size_t>(map.n_layers) * map.n_kv_heads, std::numeric_limits<float>::quiet_NaN());
  if (a.evict_at.empty() || b.evict_at.empty() || q < 0) return map;
  const int last = q - std::max(a.geometry().window, b.geometry().window);
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      int both = 0, either = 0;
      for (int token = 0; token <= last; ++token) {
        const bool in_a = is_visible(a, layer, head, token, q), in_b = is_visible(b, layer, head, token, q);
        both += in_a && in_b;
        either += in_a || in_b;
      }
      if (either > 0)
        map.values[static_cast<std::size_t>(layer) * map.n_kv_heads + head] = static_cast<float>(both) / either;
    }
  }
  return map;
}

double nll_from(const RunRecord& run, std::size_t first) {
  double sum = 0;
  int n = 0;
  for (std::size_t i = first; i < run.logprobs.size(); ++i) {
    if (std::isfinite(run.logprobs[i])) sum -= run.logprobs[i], ++n;
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

int common_prefix(const RunRecord& a, const RunRecord& b) {
  return static_cast<int>(std::ranges::mismatch(a.ids, b.ids).in1 - a.ids.begin());
}

bool tokens_part(const RunRecord& a, const RunRecord& b) {
  return common_prefix(a, b) < std::min(a.n_tokens(), b.n_tokens());
}

bool same_prompt(const RunRecord& a, const RunRecord& b) {
  return a.prompt_len == b.prompt_len && common_prefix(a, b) >= a.prompt_len;
}

double answer_nll(const RunRecord& run) {
  return nll_from(run, run.n_tokens() > run.prompt_len ? static_cast<std::size_t>(run.prompt_len) : 0);
}

double text_nll(const RunRecord& run) { return nll_from(run, 0); }

RunComparison compare_runs(const RunRecord& a, const RunRecord& b) {
  check_shapes(a.model, b.model);
  RunComparison result;
  result.n_common = common_prefix(a, b);
  result.diverged = result.n_common < std::min(a.n_tokens(), b.n_tokens());
  result.same_prompt = a.prompt_len == b.prompt_len && result.n_common >= a.prompt_len;
  result.q = std::min({result.n_common, a.queries(), b.queries()}) - 1;
  result.overlap = overlap_at(a, b, result.q);
  const std::size_t n = std::min({static_cast<std::size_t>(result.n_common), a.logprobs.size(), b.logprobs.size()});
  double sum_a = 0, sum_b = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (std::isnan(a.logprobs[i]) || std::isnan(b.logprobs[i])) continue;
    sum_a -= a.logprobs[i];
    sum_b -= b.logprobs[i];
    ++result.n_scored;
  }
  result.nll_a = sum_a / result.n_scored;  // 0 / 0 is the NaN that no token means
  result.nll_b = sum_b / result.n_scored;
  return result;
}

}  // namespace kvscope
