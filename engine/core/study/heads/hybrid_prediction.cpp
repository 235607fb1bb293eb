#include "engine/core/study/heads/hybrid_prediction.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace kvscope {
namespace {

constexpr std::size_t kLeastPoints = 4;  // two ends and something between, of which one can be left out

struct Point {
  double x = 0, y = 0, weight = 1;
};

/// Blocks of the falling least-squares fit (pool adjacent violators), by x; each at the mean x of its points.
std::vector<Point> falling_fit(std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, &Point::x);
  const auto pool = [](Point& into, const Point& other) {
    const double weight = into.weight + other.weight;
    into.x = (into.x * into.weight + other.x * other.weight) / weight;
    into.y = (into.y * into.weight + other.y * other.weight) / weight;
    into.weight = weight;
  };
  std::vector<Point> blocks;
  for (std::size_t i = 0; i < points.size();) {
    Point block = points[i];
    for (++i; i < points.size() && points[i].x == block.x; ++i) pool(block, points[i]);
    while (!blocks.empty() && blocks.back().y <= block.y) {
      pool(blocks.back(), block);
      block = blocks.back();
      blocks.pop_back();
    }
    blocks.push_back(block);
  }
  return blocks;
}

double value_at(const std::vector<Point>& blocks, double x) {
  if (x <= blocks.front().x) return blocks.front().y;
  if (x >= blocks.back().x) return blocks.back().y;
  std::size_t right = 1;
  while (blocks[right].x < x) ++right;
  const Point &a = blocks[right - 1], &b = blocks[right];
  return a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
}

/// Share of the signal in heads whose mark is at least a half; NaN where no head has any.
template <typename Marks>
double share_of(std::span<const double> signal, const Marks& marks) {
  double in = 0, all = 0;
  for (std::size_t h = 0; h < signal.size(); ++h) {
    const double value = std::isnan(signal[h]) ? 0 : std::max(signal[h], 0.0);
    all += value;
    if (static_cast<double>(marks[h]) >= 0.5) in += value;
  }
  return in / all;
}

std::vector<Point> measured_points(const StudyTable& study, std::span<const double> signal, const StudyArray& global) {
  const StudyColumn* nll = study.column("nll_difference");
  std::vector<Point> points;
  if (nll == nullptr || nll->is_text) return points;
  std::set<std::vector<double>> seen;  // d-again often chooses d's heads: the same measurement, and no other
  for (std::size_t row = 0; row < study.n_points(); ++row) {
    const auto first = global.values.begin() + static_cast<std::ptrdiff_t>(row * signal.size());
    const std::vector<double> heads(first, first + static_cast<std::ptrdiff_t>(signal.size()));
    // The gate's own policy has no heads: its row is NaN.
    if (std::isnan(nll->numbers[row]) || std::ranges::any_of(heads, [](double v) { return std::isnan(v); })) continue;
    if (seen.insert(heads).second) points.push_back({share_of(signal, heads), nll->numbers[row]});
  }
  return points;
}

/// Of points each predicted by the fit of the others.
double left_out_error(const std::vector<Point>& points) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<Point> others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double off = value_at(falling_fit(others), points[i].x) - points[i].y;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(points.size()));
}

nlohmann::json facts_of(const StudyTable& study) {
  auto facts = nlohmann::json::parse(study.facts, nullptr, false);
  return facts.is_object() ? facts : nlohmann::json::object();
}

template <typename Value>
Value fact(const nlohmann::json& facts, const char* name, const Value& missing) {
  const auto found = facts.find(name);
  if (found == facts.end()) return missing;
  const bool fits = std::is_same_v<Value, int> ? found->is_number_integer() : found->is_string();
  return fits ? found->get<Value>() : missing;
}

bool is_of_model(const StudyTable& study, const nlohmann::json& facts, const ModelInfo& model) {
  const std::string hash = fact(facts, "weights_hash", std::string());
  if (!hash.empty() && !model.weights_hash.empty() && hash != model.weights_hash) return false;
  const StudyArray *signal = study.array("signal_mean"), *heads = study.array("global_heads");
  const std::vector<std::int64_t> shape = {model.n_layers, model.n_kv_heads};
  const std::vector<std::int64_t> of_points = {static_cast<std::int64_t>(study.n_points()), shape[0], shape[1]};
  return signal != nullptr && heads != nullptr && signal->shape == shape && heads->shape == of_points;
}

}  // namespace

std::optional<HybridPrediction> predict_hybrid(const StudyTable& study, const ModelInfo& model,
                                               const GlobalHeads& global) {
  const nlohmann::json facts = facts_of(study);
  if (!is_of_model(study, facts, model)) return {};
  const std::vector<double>& signal = study.array("signal_mean")->values;
  if (signal.size() != global.size()) return {};
  const std::vector<Point> points = measured_points(study, signal, *study.array("global_heads"));
  HybridPrediction prediction{.share = share_of(signal, global),
                              .n_points = static_cast<int>(points.size()),
                              .signal = fact(facts, "signal", std::string()),
                              .n_sink = fact(facts, "sinks", 0),
                              .window = fact(facts, "window", 0)};
  if (points.size() < kLeastPoints || std::isnan(prediction.share)) return {};
  prediction.nll_difference = value_at(falling_fit(points), prediction.share);
  prediction.error = left_out_error(points);
  return prediction;
}

}  // namespace kvscope
