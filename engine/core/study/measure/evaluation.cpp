#include "engine/core/study/measure/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/core/study/measure/student_t.h"

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

/// The answers of the dense policy to one question or piece.
struct DenseAnswer {
  Mean mark, nll;
};
using DenseAnswers = std::map<std::pair<std::string, int>, DenseAnswer>;

void add_accuracy(EvalRow& row, const std::map<int, Mean>& marks, const DenseAnswers& dense) {
  const auto n_answers = row.n;
  row.n = static_cast<int>(marks.size());
  std::vector<double> shares;
  double paired = 0, of_dense = 0;
  for (const auto& [index, mark] : marks) {
    shares.push_back(mark.value());
    const auto other = dense.find({row.item, index});
    if (other != dense.end()) paired += mark.value(), of_dense += other->second.mark.value();
  }
  row.accuracy = std::accumulate(shares.begin(), shares.end(), 0.0) / row.n;
  const bool is_one_each = n_answers == row.n;
  if (!is_one_each) row.rollouts = static_cast<double>(n_answers) / row.n;
  const Interval interval =
      is_one_each && !row.is_share ? wilson_95(std::round(row.accuracy * row.n), row.n) : mean_95(shares);
  row.low = interval.low;
  row.high = interval.high;
  if (of_dense > 0) row.relative = paired / of_dense;
}

EvalRow row_of(const Group& group, const DenseAnswers& dense) {
  EvalRow row{.item = group[0]->item, .policy = group[0]->policy, .n = static_cast<int>(group.size())};
  row.is_share = !std::isnan(group[0]->share);
  std::map<int, Mean> marks;  // by question, over its rollouts
  std::int64_t tokens = 0;
  double seconds = 0;
  Mean nll, difference, density, read_share, cache_tokens, cache_size, cache_size_end, window;
  Mean recall, mass_recall, output_error, evicted, triggers, overflows;
  for (const EvalAnswer* answer : group) {
    marks[answer->index].add(answer->mark());
    nll.add(answer->nll);
    density.add(answer->density);
    read_share.add(answer->read_share);
    cache_tokens.add(answer->cache_tokens);
    cache_size.add(answer->cache_size);
    cache_size_end.add(answer->cache_size_end);
    window.add(answer->window);
    evicted.add(answer->evicted);
    triggers.add(answer->triggers);
    overflows.add(answer->overflows);
    recall.add(answer->recall);
    mass_recall.add(answer->mass_recall);
    output_error.add(answer->output_error);
    tokens += answer->tokens;
    seconds += answer->seconds;
    const auto other = dense.find({answer->item, answer->index});
    if (other != dense.end()) difference.add(answer->nll - other->second.nll.value());
  }
  row.density = density.value();
  row.read_share = read_share.value();
  row.cache_tokens = cache_tokens.value();
  row.cache_size = cache_size.value();
  row.cache_size_end = cache_size_end.value();
  row.window = window.value();
  row.evicted = evicted.value();
  row.triggers = triggers.value();
  row.overflows = overflows.value();
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
  add_accuracy(row, marks, dense);
  return row;
}

}  // namespace

Interval wilson_95(double right, int n) {
  if (n <= 0) return {};
  constexpr double z = 1.959963984540054, z2 = z * z;
  const double p = right / n;
  const double middle = p + z2 / (2 * n), half = z * std::sqrt(p * (1 - p) / n + z2 / (4.0 * n * n)),
               scale = 1 + z2 / n;
  return {std::max(0.0, (middle - half) / scale), std::min(1.0, (middle + half) / scale)};
}

Interval mean_95(std::span<const double> shares) {
  const auto n = static_cast<int>(shares.size());
  if (n < 2) return {};
  Mean mean;
  for (const double share : shares) mean.add(share);
  const double error = mean.standard_error(), p = mean.value();
  if (std::ranges::all_of(shares, [&](double share) { return share == shares[0]; })) return wilson_95(p * n, n);
  const double half = student_t_975(n - 1) * error;
  return {std::max(0.0, p - half), std::min(1.0, p + half)};
}

std::vector<EvalRow> summarise(std::span<const EvalAnswer> answers) {
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  DenseAnswers dense;
  for (const EvalAnswer& answer : answers) {
    const auto [place, is_new] = places.try_emplace({answer.item, answer.policy}, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&answer);
    if (!answer.is_dense) continue;
    DenseAnswer& there = dense[{answer.item, answer.index}];
    there.mark.add(answer.mark());
    there.nll.add(answer.nll);
  }
  std::vector<EvalRow> rows;
  for (const Group& group : groups) rows.push_back(row_of(group, dense));
  return rows;
}

const char* accuracy_title(std::span<const EvalRow> rows) {
  if (std::ranges::any_of(rows, &EvalRow::is_share)) return "mean mark";
  const bool samples = std::ranges::any_of(rows, [](const EvalRow& row) { return !std::isnan(row.rollouts); });
  return samples ? "pass@1" : "accuracy";
}

}  // namespace kvscope
