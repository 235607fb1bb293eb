#include "engine/core/study/measure/run_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/quantile.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr RunQuantityInfo kQuantities[] = {
    {RunQuantity::nll, "nll", "NLL", "nats per token",
     "negative natural log-probability that the model, under this policy, gave each token", ""},
    {RunQuantity::cached, "cached", "In cache", "tokens", "tokens in the cache of a head, including window and sinks",
     "KV heads"},
    {RunQuantity::density, "density", "Density", "", "kept tokens / all tokens, of those that have left the window",
     "KV heads"},
    {RunQuantity::recall, "recall", "Recall", "",
     "share of the run's own oracle's tokens that the policy keeps, mean over (head, query) pairs with a choice",
     "KV heads"},
    {RunQuantity::output_error, "output_error", "Output error", "",
     "|change of a layer's attention output| / |that output|, caused by evicted or unread tokens", "layers"},
    {RunQuantity::cache_bytes, "cache_bytes", "Cache size", "KiB",
     "keys and values in the cache of a head, including window and sinks", "KV heads"},
    {RunQuantity::page_occupancy, "page_occupancy", "Page occupancy", "",
     "tokens in the cache of a head / slots of its pages. Slots are reused, and no page is given back; the rest is "
     "fragmentation. Computed from lifetimes",
     "KV heads"},
};

/// Positions begin ... end - 1.
struct Range {
  std::int32_t begin, end;
  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};

/// What n positions have of the part.
Range range_of(CurvePart part, std::int32_t n) {
  const std::int32_t begin = std::clamp(part.first, 0, n);
  return {begin, part.count > 0 ? begin + std::min(n - begin, part.count) : n};
}
/// Of the part as it was asked for, which may reach over the range.
std::int32_t length_of(CurvePart part, Range range) { return part.count > 0 ? part.count : range.end - range.begin; }

/// The values of one run, head by head or layer by layer, at the positions of a range: [range.size()] each.
class Values {
 public:
  Values(const RunRecord& run, RunQuantity quantity, Range range) : run_(run), quantity_(quantity), range_(range) {
    if (quantity == RunQuantity::recall) oracle_.emplace(run);
  }
  int n_parts() const {
    if (quantity_ == RunQuantity::nll) return 1;
    return quantity_ == RunQuantity::output_error ? run_.model.n_layers : run_.model.n_layers * run_.model.n_kv_heads;
  }
  std::vector<double> of(int part) const {
    switch (quantity_) {
      case RunQuantity::nll:
        return of_range(run_.logprobs, [](float v) { return -v; });
      case RunQuantity::output_error:
        if (run_.output_error.empty()) return none();
        return of_range(output_error_curve(run_, part).values, [](double v) { return v; });
      case RunQuantity::recall:
        return recall(part);
      case RunQuantity::cache_bytes:
        return bytes(part);
      case RunQuantity::page_occupancy:
        return occupancy(part);
      default:
        return kept(part, range_);
    }
  }

  /// Of the parts that were asked for.
  OracleMean oracle_mean() const { return over_pairs_.value(); }

 private:
  std::vector<double> none() const { return std::vector<double>(range_.size(), kNaN); }

  template <typename All, typename Value>
  std::vector<double> of_range(const All& all, Value value) const {
    std::vector<double> values = none();
    const std::size_t end = std::min(all.size(), static_cast<std::size_t>(range_.end));
    for (auto p = static_cast<std::size_t>(range_.begin); p < end; ++p)
      values[p - static_cast<std::size_t>(range_.begin)] = value(all[p]);
    return values;
  }

  std::vector<double> recall(int head) const {
    if (!oracle_->is_known()) return none();
    const int kv_heads = run_.model.n_kv_heads;
    return of_range(oracle_->curve(head / kv_heads, head % kv_heads), [this](const OracleCounts& counts) {
      over_pairs_.add(counts);
      return counts.recall();
    });
  }

  std::vector<double> bytes(int head) const {
    const std::int64_t token = run_.model.bytes_of_token();
    if (token == 0) return none();
    std::vector<double> values = kept(head, range_);
    for (double& value : values) value *= static_cast<double>(token) / 1024;
    return values;
  }

  /// Pages are given out by the most tokens so far, also before the range.
  std::vector<double> occupancy(int head) const {
    const std::vector<double> all = kept(head, {0, range_.end});
    std::vector<double> values = none();
    const double page = run_.page_size;
    double most = 0;
    for (std::size_t q = 0; q < all.size(); ++q) {
      if (std::isnan(all[q])) continue;
      most = std::max(most, all[q]);
      if (q >= static_cast<std::size_t>(range_.begin) && most > 0)
        values[q - static_cast<std::size_t>(range_.begin)] = all[q] / (std::ceil(most / page) * page);
    }
    return values;
  }

  /// Tokens alive at q: all of them, or those that have left the window as a share of what the policy has decided on.
  std::vector<double> kept(int head, Range range) const {
    std::vector<double> values(range.size(), kNaN);
    const int layer = head / run_.model.n_kv_heads, kv_head = head % run_.model.n_kv_heads;
    if (run_.evict_at.empty() || run_.is_local_by_model(layer, kv_head)) return values;
    const auto& evict_at = run_.evict_at.row(layer, kv_head);
    const bool share = quantity_ == RunQuantity::density;
    const bool open = run_.status == RunStatus::running || run_.status == RunStatus::failed;
    const std::int64_t begin = range.begin, end = std::min<std::int64_t>(range.end, run_.queries());
    const std::int64_t window = share ? run_.geometry().window : 0;
    if (end <= begin) return values;
    std::vector<std::int32_t> alive(static_cast<std::size_t>(end - begin) + 1), counted = alive;
    for (std::int64_t t = 0; t + window < end; ++t) {
      const std::int32_t e = t < static_cast<std::int64_t>(evict_at.size()) ? evict_at[t] : kUndecided;
      if (share && (t >= static_cast<std::int64_t>(evict_at.size()) || (!open && e == kUndecided))) continue;
      const std::int64_t from = std::max(t + window, begin);  // what came before the range is there at its first query
      ++counted[from - begin];
      const std::int64_t last = std::min<std::int64_t>(e, end);
      if (last <= from) continue;
      ++alive[from - begin], --alive[last - begin];
    }
    std::int64_t now = 0, all = 0;
    for (std::int64_t q = 0; q < end - begin; ++q) {
      now += alive[q], all += counted[q];
      if (!share) values[q] = static_cast<double>(now);
      if (share && all > 0) values[q] = static_cast<double>(now) / static_cast<double>(all);
    }
    return values;
  }

  const RunRecord& run_;
  RunQuantity quantity_;
  Range range_;
  std::optional<Oracle> oracle_;
  mutable MeanOverPairs over_pairs_;
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
  void take(const Mean& other) { sum += other.sum, n += other.n; }
  double value() const { return n > 0 ? sum / n : kNaN; }
};

/// Points of `length` positions from the range's begin on, as far as the range goes.
std::vector<CurvePoint> points_over(Range range, std::int32_t length, int n_points) {
  std::vector<CurvePoint> points;
  const std::int32_t count = std::clamp(n_points, 1, std::max(length, 1));
  for (std::int32_t i = 0; i < count; ++i) {
    const auto begin = range.begin + static_cast<std::int32_t>(static_cast<std::int64_t>(length) * i / count);
    const auto end = range.begin + static_cast<std::int32_t>(static_cast<std::int64_t>(length) * (i + 1) / count);
    if (begin >= range.end) break;
    points.push_back({begin, std::min(end, range.end) - 1});
  }
  return points;
}

/// The least and the greatest of a point's positions, each the mean over the parts that have it.
void set_range(CurvePoint& point, std::span<const Mean> at_position) {
  point.least = point.greatest = kNaN;
  for (const Mean& mean : at_position) {
    if (mean.n == 0) continue;
    point.least = std::fmin(point.least, mean.value());
    point.greatest = std::fmax(point.greatest, mean.value());
  }
}

/// `of(part)` gives the values of the range's positions; `length`: of the part that was asked for. Of recall, whose heads have
/// values at other queries each, every value has the same weight, else every part.
template <typename Of>
RunCurve summarise(RunQuantity quantity, Range range, std::int32_t length, int n_points, const std::vector<int>& parts,
                   Of of) {
  RunCurve curve{.points = {}, .mean = kNaN, .n_parts = static_cast<int>(parts.size())};
  if (range.size() == 0) return curve;
  curve.points = points_over(range, length, n_points);
  std::vector<std::vector<double>> of_parts(curve.points.size());
  std::vector<Mean> at_position(range.size());
  const auto index = [&](std::int32_t position) { return static_cast<std::size_t>(position - range.begin); };
  const bool by_value = quantity == RunQuantity::recall;
  std::vector<Mean> in_point(curve.points.size());
  Mean whole;
  for (const int part : parts) {
    const std::vector<double> values = of(part);
    Mean of_part;
    for (std::size_t i = 0; i < values.size(); ++i) at_position[i].add(values[i]), of_part.add(values[i]);
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      CurvePoint& point = curve.points[i];
      Mean here;
      for (std::int32_t p = point.first; p <= point.last; ++p) here.add(values[index(p)]);
      point.n = std::max(point.n, here.n);
      point.pairs += here.n;
      in_point[i].take(here);
      if (here.n > 0) of_parts[i].push_back(here.value());
    }
    by_value ? whole.take(of_part) : whole.add(of_part.value());
  }
  curve.mean = whole.value();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    CurvePoint& point = curve.points[i];
    std::ranges::sort(of_parts[i]);
    Mean mean;
    for (const double v : of_parts[i]) mean.add(v);  // in this order: to the last digit as files have it
    point.mean = by_value ? in_point[i].value() : mean.value();
    point.low = mean.n > 0 ? quantile(of_parts[i], 0.25) : kNaN;
    point.high = mean.n > 0 ? quantile(of_parts[i], 0.75) : kNaN;
    set_range(
        point,
        std::span(at_position).subspan(index(point.first), static_cast<std::size_t>(point.last - point.first) + 1));
  }
  return curve;
}

}  // namespace

std::span<const RunQuantityInfo> run_quantities() { return kQuantities; }

const RunQuantityInfo& info_of(RunQuantity quantity) {
  return *std::ranges::find(kQuantities, quantity, &RunQuantityInfo::quantity);
}

RunCurve run_curve(const RunRecord& run, RunQuantity quantity, int n_points, std::span<const int> heads,
                   CurvePart part) {
  const Range range = range_of(part, run.n_tokens());
  const Values values(run, quantity, range);
  RunCurve curve = summarise(quantity, range, length_of(part, range), n_points, parts_of(values, run, quantity, heads),
                             [&](int i) { return values.of(i); });
  curve.oracle = values.oracle_mean();
  return curve;
}

RunCurve run_curve_difference(const RunRecord& a, const RunRecord& b, RunQuantity quantity, int n_points,
                              std::span<const int> heads, CurvePart part) {
  if (a.model.n_layers != b.model.n_layers || a.model.n_kv_heads != b.model.n_kv_heads)
    refuse("run_curve", "runs", "runs of different shapes", "the same layers and heads");
  const auto end = a.ids.begin() + std::min(a.n_tokens(), b.n_tokens());
  const auto common = static_cast<std::int32_t>(std::mismatch(a.ids.begin(), end, b.ids.begin()).first - a.ids.begin());
  const Range range = range_of(part, common);
  const Values of_a(a, quantity, range), of_b(b, quantity, range);
  return summarise(quantity, range, length_of(part, range), n_points, parts_of(of_a, a, quantity, heads), [&](int i) {
    std::vector<double> difference = of_b.of(i);
    const std::vector<double> other = of_a.of(i);
    for (std::size_t p = 0; p < difference.size(); ++p) difference[p] -= other[p];
    return difference;
  });
}

std::int64_t run_curve_cost(const RunRecord& run, RunQuantity quantity, CurvePart part) {
  const Range range = range_of(part, run.n_tokens());
  const std::int64_t heads = static_cast<std::int64_t>(run.model.n_layers) * run.model.n_kv_heads;
  switch (quantity) {
    case RunQuantity::nll:
      return static_cast<std::int64_t>(range.size());
    case RunQuantity::output_error:
      return static_cast<std::int64_t>(run.model.n_layers) * run.n_tokens();
    case RunQuantity::recall:
      return heads * run.n_tokens() * 20;  // sorting, and two trees a token
    case RunQuantity::cached:
    case RunQuantity::density:
    case RunQuantity::cache_bytes:
    case RunQuantity::page_occupancy:
      break;
  }
  return heads * range.end;  // what is alive in the part came before it
}

}  // namespace kvscope
