#include "engine/jobs/bench/statistics.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace kvscope::engine {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

nlohmann::json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Spread time_repeats(int n_warm_up, int n_repeats, const std::function<void()>& body) {
  for (int i = 0; i < n_warm_up; ++i) body();
  std::vector<double> seconds;
  for (int i = 0; i < n_repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return spread_of(std::move(seconds));
}

}  // namespace kvscope::engine
