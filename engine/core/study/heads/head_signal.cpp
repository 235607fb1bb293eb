#include "engine/core/study/heads/head_signal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/core/policy/density.h"
#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/student_t.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double share(double part, double whole) { return whole > 0 ? part / whole : kNone; }

void check_long_enough(const RunRecord& run, int n_long_range) {
  if (n_long_range > 0) return;
  throw Error({.code = ExitCode::usage,
               .file = "pieces",
               .found = std::to_string(run.queries()) + " tokens under " + run.policy.to_string(),
               .expected = "pieces longer than the window",
               .hint = "use a greater --length or a smaller window"});
}

}  // namespace

HeadValues HeadSignal::mean() const {
  HeadValues result(pieces.at(0).size(), 0);
  for (const HeadValues& piece : pieces)
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += piece[i] / static_cast<double>(pieces.size());
  return result;
}

HeadValues HeadSignal::deviation() const {
  const HeadValues centre = mean();
  HeadValues result(centre.size(), pieces.size() > 1 ? 0 : kNone);
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (const HeadValues& piece : pieces) result[i] += (piece[i] - centre[i]) * (piece[i] - centre[i]);
    result[i] = std::sqrt(result[i] / (static_cast<double>(pieces.size()) - 1));
  }
  return result;
}

HeadValues admitted_density(const RunRecord& run, const PolicySpec& gated) {
  const int q = run.queries() - 1, end = q - gated.geometry(run.n_positions).window + 1;
  check_long_enough(run, end);
  const std::vector<float> log_gamma = run.log_gamma(), thresholds = run.thresholds();
  HeadIndex head{.n_layers = run.model.n_layers,
                 .n_kv_heads = run.model.n_kv_heads,
                 .log_gamma = log_gamma,
                 .thresholds = thresholds};
  HeadValues density;
  std::vector<std::int32_t> evict_at(static_cast<std::size_t>(run.queries()));
  for (head.layer = 0; head.layer < head.n_layers; ++head.layer) {
    for (head.kv_head = 0; head.kv_head < head.n_kv_heads; ++head.kv_head) {
      const std::vector<float>& scores = run.scores.row(head.layer, head.kv_head);
      policy_lifetimes(gated, run.n_positions, head, scores, run.queries(), evict_at, nullptr);
      const auto kept =
          std::count_if(evict_at.begin(), evict_at.begin() + end, [q](std::int32_t left_at) { return q < left_at; });
      density.push_back(static_cast<double>(kept) / end);
    }
  }
  return density;
}

std::vector<float> thresholds_of_shares(const RunRecord& run, const PolicySpec& gated, const HeadValues& shares) {
  const RetentionGeometry geometry = gated.geometry(run.n_positions);
  const bool strict = policy_of(gated).plan(gated, geometry).strict;
  const int begin = geometry.n_sink, n = run.queries() - geometry.window - begin;
  check_long_enough(run, n);
  std::vector<float> thresholds;
  for (std::size_t head = 0; head < shares.size(); ++head) {
    const auto index = static_cast<int>(head);
    const std::vector<float>& scores = run.scores.row(index / run.model.n_kv_heads, index % run.model.n_kv_heads);
    const auto judged = std::span(scores).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n));
    thresholds.push_back(shares[head] > 0 ? solve_threshold(judged, shares[head], strict)
                                          : std::numeric_limits<float>::infinity());
  }
  return thresholds;
}

HeadValues mass_lost_if_local(const RunRecord& run) {
  const Oracle oracle(run, OracleSpec::parse(kMassOfLocal));
  const int n_queries = oracle.n_queries() - oracle.n_sink() - oracle.window();
  check_long_enough(run, n_queries);
  HeadValues lost;
  for (int layer = 0; layer < run.model.n_layers; ++layer)
    for (int head = 0; head < run.model.n_kv_heads; ++head)
      lost.push_back(oracle.counts(layer, head, oracle.n_queries() - 1).eligible_mass / n_queries);
  return lost;
}

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  std::int64_t score = 0, untied_a = 0, untied_b = 0;
  const auto sign = [](double x) { return (x > 0) - (x < 0); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int of_a = sign(a[i] - a[j]), of_b = sign(b[i] - b[j]);
      score += of_a * of_b;
      untied_a += of_a != 0;
      untied_b += of_b != 0;
    }
  }
  const double scale = std::sqrt(static_cast<double>(untied_a)) * std::sqrt(static_cast<double>(untied_b));
  return scale > 0 ? static_cast<double>(score) / scale : kNone;
}

std::vector<int> ranking(std::span<const double> values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  return order;
}

int count_of(const GlobalHeads& heads) {
  return static_cast<int>(heads.size() - static_cast<std::size_t>(std::count(heads.begin(), heads.end(), 0)));
}

double turnover(const GlobalHeads& from, const GlobalHeads& to) {
  int gone = 0;
  for (std::size_t i = 0; i < from.size(); ++i) gone += from[i] != 0 && to[i] == 0;
  return share(gone, count_of(from));
}

double mean_turnover(std::span<const GlobalHeads> choices) {
  double sum = 0, n = 0;
  for (std::size_t i = 0; i < choices.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++n) sum += turnover(choices[i], choices[j]);
  return share(sum, n);
}

double coverage(std::span<const double> density, const GlobalHeads& heads) {
  double chosen = 0, all = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    all += density[i];
    chosen += heads[i] != 0 ? density[i] : 0;
  }
  return share(chosen, all);
}

double CacheShape::bytes(int n_global, int n_heads) const {
  const double local = std::min(context, n_sink + window);
  return bytes_per_token * (n_global * static_cast<double>(context) + (n_heads - n_global) * local);
}

double CacheShape::bytes(std::span<const double> density) const {
  const double local = std::min(context, n_sink + window);
  double tokens = 0;
  for (const double d : density) tokens += local + d * (context - local);
  return bytes_per_token * tokens;
}

int CacheShape::most_global(double limit, int n_heads) const {
  int n = n_heads;
  while (n >= 0 && bytes(n, n_heads) > limit) --n;
  return n;
}

MeanInterval mean_interval(std::span<const double> sample) {
  const int n = static_cast<int>(sample.size());
  MeanInterval result{.mean = kNone, .se = kNone, .low = kNone, .high = kNone, .n = n};
  if (n == 0) return result;
  result.mean = std::accumulate(sample.begin(), sample.end(), 0.0) / n;
  if (n < 2) return result;
  double squares = 0;
  for (const double x : sample) squares += (x - result.mean) * (x - result.mean);
  result.se = std::sqrt(squares / (n - 1) / n);
  const double half = student_t_975(n - 1) * result.se;
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

}  // namespace kvscope
