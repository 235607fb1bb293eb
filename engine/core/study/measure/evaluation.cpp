#include "engine/core/study/measure/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvscope {
namespace {

/// Mean of the values that were measured; NaN if none was.
class Mean {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    squares_ += value * value;
    ++n_;
  }
  double value() const { return n_ > 0 ? sum_ / n_ : kNotMeasured; }
  double standard_error() const {
    if (n_ < 2) return kNotMeasured;
    const double variance = std::max(0.0, squares_ - sum_ * sum_ / n_) / (n_ - 1);
    return std::sqrt(variance / n_);
  }

 private:
  double sum_ = 0, squares_ = 0;
  int n_ = 0;
};

using Group = std::vector<const EvalAnswer*>;
using DenseAnswers = std::map<std::pair<std::string, int>, const EvalAnswer*>;

EvalRow row_of(const Group& group, const DenseAnswers& dense) {
  EvalRow row{.item = group[0]->item, .policy = group[0]->policy, .n = static_cast<int>(group.size())};
  int right = 0, paired_right = 0, dense_right = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
  Mean nll, difference, density, read_share, cache_tokens, recall, mass_recall, output_error;
  for (const EvalAnswer* answer : group) {
    right += answer->is_right;
    nll.add(answer->nll);
    density.add(answer->density);
    read_share.add(answer->read_share);
    cache_tokens.add(answer->cache_tokens);
    recall.add(answer->recall);
    mass_recall.add(answer->mass_recall);
    output_error.add(answer->output_error);
    tokens += answer->tokens;
    seconds += answer->seconds;
    const auto other = dense.find({answer->item, answer->index});
    if (other == dense.end()) continue;
    paired_right += answer->is_right;
    dense_right += other->second->is_right;
    difference.add(answer->nll - other->second->nll);
  }
  row.density = density.value();
  row.read_share = read_share.value();
  row.cache_tokens = cache_tokens.value();
  row.recall = recall.value();
  row.mass_recall = mass_recall.value();
  row.output_error = output_error.value();
  if (seconds > 0) row.tokens_per_s = static_cast<double>(tokens) / seconds;
  if (group[0]->is_text) {
    row.nll = nll.value();
    row.perplexity = std::exp(row.nll);
    row.nll_difference = difference.value();
    row.nll_difference_se = difference.standard_error();
    return row;
  }
  row.accuracy = static_cast<double>(right) / row.n;
  const Interval interval = wilson_95(right, row.n);
  row.low = interval.low;
  row.high = interval.high;
  if (dense_right > 0) row.relative = static_cast<double>(paired_right) / dense_right;
  return row;
}

}  // namespace

Interval wilson_95(int right, int n) {
  if (n <= 0) return {};
  constexpr double z = 1.959963984540054, z2 = z * z;
  const double p = static_cast<double>(right) / n;
  const double middle = p + z2 / (2 * n), half = z * std::sqrt(p * (1 - p) / n + z2 / (4.0 * n * n)),
               scale = 1 + z2 / n;
  return {std::max(0.0, (middle - half) / scale), std::min(1.0, (middle + half) / scale)};
}

std::vector<EvalRow> summarise(std::span<const EvalAnswer> answers) {
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  DenseAnswers dense;
  for (const EvalAnswer& answer : answers) {
    const auto [place, is_new] = places.try_emplace({answer.item, answer.policy}, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&answer);
    if (answer.is_dense) dense[{answer.item, answer.index}] = &answer;
  }
  std::vector<EvalRow> rows;
  for (const Group& group : groups) rows.push_back(row_of(group, dense));
  return rows;
}

}  // namespace kvscope
