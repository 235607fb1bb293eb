#include "engine/core/study/run_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/core/study/oracle.h"
#include "engine/core/study/output_error.h"
#include "engine/core/study/quantile.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr RunQuantityInfo kQuantities[] = {
    {RunQuantity::nll, "nll", "NLL", "nats per token",
     "negative natural log-probability that the model, under this policy, gave each token", ""},
    {RunQuantity::cached, "cached", "In cache", "tokens", "tokens in the cache of a head, window and sinks counted",
     "KV heads"},
    {RunQuantity::density, "density", "Density", "", "tokens kept / tokens, of those that have left the window",
     "KV heads"},
    {RunQuantity::recall, "recall", "Recall", "",
     "share of the oracle's choice that the policy keeps at each query; none where nothing was chosen", "KV heads"},
    {RunQuantity::output_error, "output_error", "Output error", "",
     "|change of a layer's attention output| / |that output|, by tokens that the policy had evicted or left unread",
     "layers"},
};

/// The values of one run, part by part: [n_tokens] each.
class Values {
 public:
  Values(const RunRecord& run, RunQuantity quantity) : run_(run), quantity_(quantity) {
    if (quantity == RunQuantity::recall) oracle_.emplace(run);
  }
  int n_parts() const {
    if (quantity_ == RunQuantity::nll) return 1;
    return quantity_ == RunQuantity::output_error ? run_.model.n_layers : run_.model.n_layers * run_.model.n_kv_heads;
  }
  std::vector<double> of(int part) const {
    switch (quantity_) {
      case RunQuantity::nll:
        return nll();
      case RunQuantity::output_error:
        return output_error(part);
      case RunQuantity::recall:
        return recall(part);
      default:
        return kept(part);
    }
  }

 private:
  std::size_t n() const { return run_.ids.size(); }
  std::vector<double> none() const { return std::vector<double>(n(), kNaN); }

  std::vector<double> nll() const {
    std::vector<double> values = none();
    for (std::size_t t = 0; t < std::min(n(), run_.logprobs.size()); ++t) values[t] = -run_.logprobs[t];
    return values;
  }

  std::vector<double> output_error(int layer) const {
    std::vector<double> values = none();
    if (run_.output_error.empty()) return values;
    const OutputErrorCurve curve = output_error_curve(run_, layer);
    std::copy_n(curve.values.begin(), std::min(n(), curve.values.size()), values.begin());
    return values;
  }

  std::vector<double> recall(int head) const {
    std::vector<double> values = none();
    if (!oracle_->is_known()) return values;
    const int kv_heads = run_.model.n_kv_heads;
    const std::vector<OracleCounts> curve = oracle_->curve(head / kv_heads, head % kv_heads);
    for (std::size_t q = 0; q < std::min(n(), curve.size()); ++q) values[q] = curve[q].recall();
    return values;
  }

  /// Tokens alive at q: all of them, or those behind the window as a share of what the policy has decided on.
  std::vector<double> kept(int head) const {
    std::vector<double> values = none();
    if (run_.evict_at.empty()) return values;
    const auto& evict_at = run_.evict_at.row(head / run_.model.n_kv_heads, head % run_.model.n_kv_heads);
    const bool share = quantity_ == RunQuantity::density;
    const bool open = run_.status == RunStatus::running || run_.status == RunStatus::failed;
    const auto end = static_cast<std::int64_t>(std::min<std::size_t>(n(), static_cast<std::size_t>(run_.queries())));
    const std::int64_t window = share ? run_.geometry().window : 0;
    std::vector<std::int32_t> alive(static_cast<std::size_t>(end) + 1), counted(static_cast<std::size_t>(end) + 1);
    for (std::int64_t t = 0; t + window < end; ++t) {
      const std::int32_t e = t < static_cast<std::int64_t>(evict_at.size()) ? evict_at[t] : kUndecided;
      if (share && (t >= static_cast<std::int64_t>(evict_at.size()) || (!open && e == kUndecided))) continue;
      ++counted[t + window];
      const std::int64_t last = std::min<std::int64_t>(e, end);
      if (last <= t + window) continue;
      ++alive[t + window], --alive[last];
    }
    std::int64_t now = 0, all = 0;
    for (std::int64_t q = 0; q < end; ++q) {
      now += alive[q], all += counted[q];
      if (!share) values[q] = static_cast<double>(now);
      if (share && all > 0) values[q] = static_cast<double>(now) / static_cast<double>(all);
    }
    return values;
  }

  const RunRecord& run_;
  RunQuantity quantity_;
  std::optional<Oracle> oracle_;
};

/// The parts that count: all, or those of these heads.
std::vector<int> parts_of(const Values& values, const RunRecord& run, RunQuantity quantity,
                          std::span<const int> heads) {
  std::vector<int> parts;
  if (heads.empty() || quantity == RunQuantity::nll) {
    for (int part = 0; part < values.n_parts(); ++part) parts.push_back(part);
    return parts;
  }
  for (const int head : heads) {
    const int part = quantity == RunQuantity::output_error ? head / run.model.n_kv_heads : head;
    if (part < values.n_parts() && (parts.empty() || parts.back() != part)) parts.push_back(part);
  }
  return parts;
}

/// A mean that skips what is not there.
struct Mean {
  double sum = 0;
  int n = 0;
  void add(double v) {
    if (!std::isnan(v)) sum += v, ++n;
  }
  double value() const { return n > 0 ? sum / n : kNaN; }
};

/// `of(part)` gives the values of positions 0 ... n - 1.
template <typename Of>
RunCurve summarise(std::int32_t n, int n_points, const std::vector<int>& parts, Of of) {
  RunCurve curve{.points = {}, .mean = kNaN, .n_parts = static_cast<int>(parts.size())};
  const std::int32_t count = std::clamp(n_points, 1, std::max(n, 1));
  if (n == 0) return curve;
  std::vector<std::vector<double>> of_parts(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(static_cast<std::int64_t>(n) * i / count);
    const auto end = static_cast<std::int32_t>(static_cast<std::int64_t>(n) * (i + 1) / count);
    curve.points.push_back({begin, end - 1});
  }
  Mean whole;
  for (const int part : parts) {
    const std::vector<double> values = of(part);
    Mean of_part;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      CurvePoint& point = curve.points[i];
      Mean here;
      for (std::int32_t p = point.first; p <= point.last; ++p) here.add(values[p]), of_part.add(values[p]);
      point.n = std::max(point.n, here.n);
      if (here.n > 0) of_parts[i].push_back(here.value());
    }
    whole.add(of_part.value());
  }
  curve.mean = whole.value();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    CurvePoint& point = curve.points[i];
    std::ranges::sort(of_parts[i]);
    Mean mean;
    for (const double v : of_parts[i]) mean.add(v);
    point.mean = mean.value();
    point.low = mean.n > 0 ? quantile(of_parts[i], 0.25) : kNaN;
    point.high = mean.n > 0 ? quantile(of_parts[i], 0.75) : kNaN;
  }
  return curve;
}

}  // namespace

std::span<const RunQuantityInfo> run_quantities() { return kQuantities; }

const RunQuantityInfo& info_of(RunQuantity quantity) {
  return *std::ranges::find(kQuantities, quantity, &RunQuantityInfo::quantity);
}

RunCurve run_curve(const RunRecord& run, RunQuantity quantity, int n_points, std::span<const int> heads) {
  const Values values(run, quantity);
  return summarise(run.n_tokens(), n_points, parts_of(values, run, quantity, heads),
                   [&](int part) { return values.of(part); });
}

RunCurve run_curve_difference(const RunRecord& a, const RunRecord& b, RunQuantity quantity, int n_points,
                              std::span<const int> heads) {
  if (a.model.n_layers != b.model.n_layers || a.model.n_kv_heads != b.model.n_kv_heads)
    refuse("run_curve", "runs", "runs of different shapes", "the same layers and heads");
  const auto end = a.ids.begin() + std::min(a.n_tokens(), b.n_tokens());
  const auto common = static_cast<std::int32_t>(std::mismatch(a.ids.begin(), end, b.ids.begin()).first - a.ids.begin());
  const Values of_a(a, quantity), of_b(b, quantity);
  return summarise(common, n_points, parts_of(of_a, a, quantity, heads), [&](int part) {
    std::vector<double> difference = of_b.of(part);
    const std::vector<double> other = of_a.of(part);
    for (std::int32_t p = 0; p < common; ++p) difference[p] -= other[p];
    return difference;
  });
}

std::int64_t run_curve_cost(const RunRecord& run, RunQuantity quantity) {
  const std::int64_t n = run.n_tokens();
  const std::int64_t parts = quantity == RunQuantity::nll            ? 1
                             : quantity == RunQuantity::output_error ? run.model.n_layers
                                                                     : run.model.n_layers * run.model.n_kv_heads;
  return parts * n * (quantity == RunQuantity::recall ? 20 : 1);  // sorting, and two trees a token
}

}  // namespace kvscope
