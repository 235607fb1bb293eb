#include "engine/core/policy/density.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "engine/core/policy/policy.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Whether a threshold exists that keeps the first k alone. ordered: descending, no NaN.
bool can_keep(const std::vector<float>& ordered, std::size_t k, bool strict) {
  if (ordered.empty()) return true;
  if (k == 0) return strict || ordered.front() < kInfinity;
  if (k == ordered.size()) return !strict || ordered.back() > -kInfinity;
  return ordered[k - 1] > ordered[k];
}

float threshold_between(const std::vector<float>& ordered, std::size_t k, bool strict) {
  if (ordered.empty()) return kInfinity;
  if (k == 0) return strict ? ordered.front() : std::nextafter(ordered.front(), kInfinity);
  if (k == ordered.size()) return strict ? std::nextafter(ordered.back(), -kInfinity) : ordered.back();
  const float kept = ordered[k - 1], gone = ordered[k];
  const float middle = gone + (kept - gone) / 2;
  if (std::isfinite(middle) && middle > gone && middle < kept) return middle;
  return strict ? gone : kept;
}

/// The judged tokens' scores of a head.
std::span<const float> judged(const HeadSeries<float>& scores, int head, const TokenRange& of) {
  const std::vector<float>& row = scores.row(head / scores.n_kv_heads(), head % scores.n_kv_heads());
  return std::span(row).subspan(static_cast<std::size_t>(of.begin), static_cast<std::size_t>(of.size()));
}

}  // namespace

TokenRange judged_range(const RetentionGeometry& geometry, int n_tokens, int delay) {
  const TokenRange left{geometry.n_sink, n_tokens - geometry.window}, known{geometry.n_sink, n_tokens - delay};
  if (left.size() > 0) return left;
  if (known.size() > 0) return known;
  throw Error({.file = "prompt",
               .found = counted(n_tokens, "token") + ", but none outside the sinks has a score",
               .expected = "more than " + std::to_string(geometry.n_sink + delay) +
                           ", to find a density's threshold or the budgets of heads",
               .hint = "write threshold=NUMBER, or allocation=uniform, instead"});
}

float solve_threshold(std::span<const float> scores, double density, bool strict) {
  if (scores.empty()) throw std::invalid_argument("solve_threshold: no scores");
  std::vector<float> ordered;
  std::ranges::copy_if(scores, std::back_inserter(ordered), [](float score) { return !std::isnan(score); });
  std::ranges::sort(ordered, std::greater<>());
  const double wanted = density * static_cast<double>(scores.size());
  std::size_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k <= ordered.size(); ++k) {
    const double off = std::abs(static_cast<double>(k) - wanted);
    if (off > distance || !can_keep(ordered, k, strict)) continue;
    best = k;
    distance = off;
  }
  return threshold_between(ordered, best, strict);
}

std::vector<float> solve_density(const RetentionPlan& plan, const RetentionGeometry& geometry,
                                 const HeadSeries<float>& scores, int n_tokens, int delay) {
  const TokenRange of = judged_range(geometry, n_tokens, delay);
  const int n_heads = scores.n_layers() * scores.n_kv_heads();
  std::vector<float> thresholds(static_cast<std::size_t>(n_heads), kInfinity), all;
  for (int head = 0; head < n_heads; ++head) {
    if (plan.is_local(head)) continue;
    const std::span<const float> of_head = judged(scores, head, of);
    if (plan.density_per_head) {
      thresholds[static_cast<std::size_t>(head)] = solve_threshold(of_head, plan.density, plan.strict);
    } else {
      all.insert(all.end(), of_head.begin(), of_head.end());
    }
  }
  if (!all.empty()) std::ranges::fill(thresholds, solve_threshold(all, plan.density, plan.strict));
  return thresholds;
}

double density_error(const RetentionPlan& plan, const RetentionGeometry& geometry, std::span<const float> thresholds,
                     const HeadSeries<float>& scores, int n_tokens, int delay) {
  const TokenRange of = judged_range(geometry, n_tokens, delay);
  double n = 0, n_kept = 0, error = 0;
  int n_heads = 0;
  for (int head = 0; head < static_cast<int>(thresholds.size()); ++head) {
    if (plan.is_local(head)) continue;
    const float threshold = thresholds[static_cast<std::size_t>(head)];
    const auto kept = static_cast<double>(std::ranges::count_if(
        judged(scores, head, of), [&](float score) { return plan.strict ? score > threshold : score >= threshold; }));
    n += of.size();
    n_kept += kept;
    error += std::abs(kept / of.size() - plan.density);
    ++n_heads;
  }
  if (n_heads == 0) return 0;
  return plan.density_per_head ? error / n_heads : std::abs(n_kept / n - plan.density);
}

std::string describe_density(const PolicySpec& spec, std::span<const float> thresholds) {
  if (thresholds.empty()) return {};
  std::vector<float> ordered(thresholds.begin(), thresholds.end());
  std::ranges::sort(ordered);
  const std::string share = "density " + number_text(100 * spec.value("density"), 4) + " %";
  if (ordered.front() == ordered.back()) return share + ": threshold " + number_text(ordered.front(), 9);
  return share + " of each head: thresholds " + number_text(ordered.front(), 4) + " ... " +
         number_text(ordered.back(), 4) + ", median " + number_text(ordered[ordered.size() / 2], 4);
}

Error not_solved(const PolicySpec& spec) {
  return Error({.code = ExitCode::usage,
                .file = "policy " + spec.to_string(),
                .where = "density",
                .found = "a threshold that must be found from a text",
                .expected = "threshold=NUMBER",
                .hint = "kvscope run, score, compare and eval find it from the prompt"});
}

}  // namespace kvscope
