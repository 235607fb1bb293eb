#include "engine/core/study/table/pareto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A column in which smaller is better.
std::vector<double> turned(std::span<const double> values, Aim aim) {
  std::vector<double> result(values.begin(), values.end());
  if (aim == Aim::larger) {
    for (double& value : result) value = -value;
  }
  return result;
}

std::vector<std::size_t> measured(std::span<const double> cost, std::span<const double> value) {
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < std::min(cost.size(), value.size()); ++i) {
    if (!std::isnan(cost[i]) && !std::isnan(value[i])) points.push_back(i);
  }
  return points;
}

}  // namespace

std::vector<bool> pareto_front(std::span<const double> cost, std::span<const double> value, Aim cost_aim,
                               Aim value_aim) {
  const std::vector<double> x = turned(cost, cost_aim), y = turned(value, value_aim);
  std::vector<std::size_t> order = measured(x, y);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return std::pair(x[a], y[a]) < std::pair(x[b], y[b]); });
  std::vector<bool> on_front(cost.size(), false);
  // By cost: on the front is what is better than all that is cheaper, and equal to the best of its own cost.
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < order.size();) {
    const double own_cost = x[order[i]], own_best = y[order[i]];
    for (; i < order.size() && x[order[i]] == own_cost; ++i)
      on_front[order[i]] = own_best < best && y[order[i]] == own_best;
    best = std::min(best, own_best);
  }
  return on_front;
}

std::optional<std::size_t> pareto_knee(std::span<const double> cost, std::span<const double> value, Aim cost_aim,
                                       Aim value_aim) {
  const std::vector<double> x = turned(cost, cost_aim), y = turned(value, value_aim);
  const std::vector<bool> on_front = pareto_front(cost, value, cost_aim, value_aim);
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < on_front.size(); ++i) {
    if (on_front[i]) front.push_back(i);
  }
  std::ranges::stable_sort(front, [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  if (front.size() < 3) return {};
  const double least_x = x[front.front()], range_x = x[front.back()] - least_x;
  const double least_y = y[front.back()], range_y = y[front.front()] - least_y;
  if (!(range_x > 0) || !(range_y > 0)) return {};
  std::optional<std::size_t> knee;
  double farthest = 1e-12;  // of the chord's own ends rounding may say that they are off it
  for (const std::size_t i : front) {
    const double distance = 1 - (x[i] - least_x) / range_x - (y[i] - least_y) / range_y;
    if (distance <= farthest) continue;
    farthest = distance;
    knee = i;
  }
  return knee;
}

double value_at_cost(std::span<const double> cost, std::span<const double> value, double at) {
  struct Sum {
    double values = 0;
    int n = 0;
  };
  std::map<double, Sum> by_cost;
  for (const std::size_t i : measured(cost, value)) {
    by_cost[cost[i]].values += value[i];
    ++by_cost[cost[i]].n;
  }
  const auto above = by_cost.lower_bound(at);
  if (std::isnan(at) || above == by_cost.end()) return kNaN;
  const double high = above->second.values / above->second.n;
  if (above->first == at) return high;
  if (above == by_cost.begin()) return kNaN;
  const auto below = std::prev(above);
  const double low = below->second.values / below->second.n;
  return low + (high - low) * (at - below->first) / (above->first - below->first);
}

}  // namespace kvscope
