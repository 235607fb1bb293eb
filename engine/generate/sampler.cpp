#include "engine/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kvscope::engine {

double log_sum_exp(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return highest + std::log(sum);
}

std::int32_t Sampler::next(std::span<const float> logits) {
  if (spec_.temperature > 0) return draw(logits);
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::int32_t Sampler::draw(std::span<const float> logits) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (spec_.top_k > 0 && static_cast<std::size_t>(spec_.top_k) < order.size()) {
    std::partial_sort(order.begin(), order.begin() + spec_.top_k, order.end(), likelier);
    order.resize(spec_.top_k);
  } else {
    std::sort(order.begin(), order.end(), likelier);
  }
  std::vector<double> weight(order.size());
  double total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    weight[i] = std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / spec_.temperature);
    total += weight[i];
  }
  if (spec_.top_p < 1) {
    double sum = 0;
    std::size_t kept = 0;
    while (kept < weight.size() && (kept == 0 || sum < spec_.top_p * total)) sum += weight[kept++];
    order.resize(kept);
    total = sum;
  }
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  std::size_t i = 0;
  while (i + 1 < order.size() && (left -= weight[i]) >= 0) ++i;
  return order[i];
}

}  // namespace kvscope::engine
