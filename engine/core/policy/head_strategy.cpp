#include "engine/core/policy/head_strategy.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "engine/core/policy/policy.h"
#include "engine/core/support/random.h"

namespace kvscope {
namespace {

std::vector<std::uint8_t> whole_layers(const HeadsOfModel& heads, int first) {
  std::vector<std::uint8_t> local(static_cast<std::size_t>(heads.n_heads()), 1);
  for (int layer = 0; layer < heads.n_layers; ++layer) {
    const bool is_global = (layer >= first && (layer - first) % 4 == 0) || layer == heads.n_layers - 1;
    if (is_global) std::fill_n(local.begin() + layer * heads.n_kv_heads, heads.n_kv_heads, std::uint8_t{0});
  }
  return local;
}

std::vector<std::uint8_t> least_local(const std::vector<float>& values, int n_heads, int n_global) {
  const auto n = static_cast<std::size_t>(n_heads);
  if (values.size() != n) throw std::invalid_argument("local_heads_by: no value for each head");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  std::vector<std::uint8_t> local(n, 1);
  for (int i = 0; i < n_global; ++i) local[order[static_cast<std::size_t>(i)]] = 0;
  return local;
}

std::vector<float> drawn(int n_heads, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (int i = 0; i < n_heads; ++i) values.push_back(static_cast<float>(random.uniform()));
  return values;
}

}  // namespace

std::optional<int> own_global_heads(HeadStrategy strategy, const HeadsOfModel& heads) {
  if (strategy == HeadStrategy::c || strategy == HeadStrategy::d) return std::nullopt;
  const std::vector<std::uint8_t> local = local_heads_by(strategy, heads, 0);
  return static_cast<int>(std::count(local.begin(), local.end(), 0));
}

std::vector<std::uint8_t> local_heads_by(HeadStrategy strategy, const HeadsOfModel& heads, int n_global,
                                         std::uint64_t seed) {
  switch (strategy) {
    case HeadStrategy::a:
      return whole_layers(heads, 0);
    case HeadStrategy::b:
      return whole_layers(heads, 3);
    case HeadStrategy::c:
      return least_local(drawn(heads.n_heads(), seed), heads.n_heads(), n_global);
    case HeadStrategy::d:
      return least_local(heads.alpha, heads.n_heads(), n_global);
  }
  throw std::logic_error("local_heads_by: no such strategy");
}

}  // namespace kvscope
