#include "engine/core/study/heads/token_lives.h"

#include <algorithm>

#include "engine/core/study/heads/head_evictions.h"

namespace kvscope {

bool has_cost(const RunRecord& run) { return run.status != RunStatus::running && !run.future_mass.empty(); }

std::vector<VerdictOfEviction> head_verdicts(const RunRecord& run, int layer, int kv_head) {
  if (!has_cost(run) || run.is_local_by_model(layer, kv_head)) return {};
  return eviction_verdicts(run, layer, kv_head);
}

std::vector<TokenLife> token_lives(const RunRecord& run, int layer, int kv_head, std::int32_t first, std::int32_t last,
                                   const std::vector<VerdictOfEviction>& verdicts, LifeOrder order) {
  const HeadEvictions head(run, layer, kv_head, &verdicts);
  const RetentionGeometry geometry = run.geometry(layer, kv_head);
  const std::int32_t n = run.queries();
  const bool costs = has_cost(run);
  std::vector<TokenLife> lives;
  lives.reserve(static_cast<std::size_t>(std::max(0, std::min(last, n - 1) - std::max(0, first) + 1)));
  for (std::int32_t t = std::max(0, first); t <= std::min(last, n - 1); ++t) {
    TokenLife& life = lives.emplace_back(TokenLife{.t = t, .sink = t < geometry.n_sink, .evicted = head.is_evicted(t)});
    life.gone = life.evicted ? head.gone(t) : n;
    const std::int64_t left = life.sink ? life.gone : std::int64_t{t} + geometry.window;
    life.left_window = static_cast<std::int32_t>(std::min<std::int64_t>(left, life.gone));
    if (!life.evicted) continue;
    const Eviction eviction = head.eviction(t);
    life.verdict = eviction.verdict;
    if (costs) life.cost = eviction.mass;
  }
  const auto sort_by = [&](auto value) {
    std::ranges::sort(lives, [&](const TokenLife& a, const TokenLife& b) {
      return value(a) != value(b) ? value(a) > value(b) : a.t < b.t;
    });
  };
  if (order == LifeOrder::cost) sort_by([](const TokenLife& life) { return life.cost; });
  if (order == LifeOrder::life) sort_by([](const TokenLife& life) { return life.length(); });
  return lives;
}

LifeCounts count_lives(std::span<const TokenLife> lives) {
  LifeCounts counts;
  for (const TokenLife& life : lives) {
    ++counts.tokens;
    counts.evicted += life.evicted;
    counts.wrong += life.verdict == EvictionVerdict::wrong;
    counts.right += life.verdict == EvictionVerdict::right;
    counts.cost += life.cost;
  }
  return counts;
}

}  // namespace kvscope
