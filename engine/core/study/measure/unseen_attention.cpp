#include "engine/core/study/measure/unseen_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvscope {
namespace {

/// The first tokens of a head's row; a run that goes on may have fewer than it has tokens, and these are not evicted.
std::int32_t n_decided(const std::vector<std::int32_t>& evict_at, std::int32_t query) {
  return std::min(query + 1, static_cast<std::int32_t>(evict_at.size()));
}

}  // namespace

double UnseenAttention::share() const { return std::accumulate(evicted.begin(), evicted.end(), 0.0); }

int UnseenAttention::n_evicted() const {
  return static_cast<int>(std::ranges::count_if(heads_without, [](std::int32_t n) { return n > 0; }));
}

void count_heads_without(const RunRecord& run, UnseenAttention& unseen) {
  unseen.n_heads = 0;
  unseen.heads_without.assign(static_cast<std::size_t>(unseen.query) + 1, 0);
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      if (!unseen.scope.has(layer, head) || run.is_local_by_model(layer, head)) continue;
      ++unseen.n_heads;
      const std::vector<std::int32_t>& evict_at = run.evict_at.row(layer, head);
      for (std::int32_t t = 0, end = n_decided(evict_at, unseen.query); t < end; ++t) {
        const auto i = static_cast<std::size_t>(t);
        unseen.heads_without[i] += !visible(unseen.query, t, evict_at[i]);
      }
    }
  }
}

UnseenAttention unseen_attention(const RunRecord& run, const QueryAttention& attention, HeadScope scope) {
  UnseenAttention unseen{.query = attention.query(), .scope = scope};
  unseen.n_layers = attention.n_layers, unseen.n_kv_heads = attention.n_kv_heads;
  count_heads_without(run, unseen);
  const auto n = static_cast<std::size_t>(attention.n_tokens);
  std::vector<double> held(n, 0), evicted(n, 0);
  for (int layer = 0; layer < attention.n_layers; ++layer) {
    for (int head = 0; head < attention.n_kv_heads; ++head) {
      if (run.is_local_by_model(layer, head)) {
        unseen.missing.push_back(std::nanf(""));
        continue;
      }
      const float* p = attention.row(layer, head);
      const std::vector<std::int32_t>& evict_at = run.evict_at.row(layer, head);
      const std::int32_t decided = n_decided(evict_at, unseen.query);
      const bool is_shown = scope.has(layer, head);
      double missing = 0;
      for (std::int32_t t = 0; t <= unseen.query; ++t) {
        const auto i = static_cast<std::size_t>(t);
        const bool is_evicted = t < decided && !visible(unseen.query, t, evict_at[i]);
        if (is_evicted) missing += p[i];
        if (is_shown) (is_evicted ? evicted : held)[i] += p[i];
      }
      unseen.missing.push_back(static_cast<float>(missing));
    }
  }
  const double heads = std::max(1, unseen.n_heads);
  for (std::size_t i = 0; i < n; ++i) {
    unseen.held.push_back(static_cast<float>(held[i] / heads));
    unseen.evicted.push_back(static_cast<float>(evicted[i] / heads));
  }
  return unseen;
}

std::vector<std::int32_t> most_missing(const UnseenAttention& unseen, int most) {
  std::vector<std::int32_t> tokens;
  for (std::size_t t = 0; t < unseen.evicted.size(); ++t)
    if (unseen.evicted[t] > 0) tokens.push_back(static_cast<std::int32_t>(t));
  const auto end = tokens.begin() + std::min<std::ptrdiff_t>(most, std::ssize(tokens));
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](std::int32_t a, std::int32_t b) {
    const float of_a = unseen.evicted[static_cast<std::size_t>(a)], of_b = unseen.evicted[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace kvscope
