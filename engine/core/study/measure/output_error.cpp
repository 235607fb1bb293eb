#include "engine/core/study/measure/output_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

OutputErrorMean mean_of(std::span<const float> damage, std::span<const float> output) {
  double lost = 0, whole = 0;
  OutputErrorMean mean;
  for (std::size_t q = 0; q < damage.size(); ++q) {
    if (std::isnan(damage[q])) continue;
    lost += static_cast<double>(damage[q]) * damage[q];
    whole += static_cast<double>(output[q]) * output[q];
    ++mean.n_queries;
  }
  mean.value = whole > 0 ? std::sqrt(lost / whole) : std::numeric_limits<double>::quiet_NaN();
  return mean;
}

HeadMap empty_map(const RunRecord& run) {
  const int n_layers = run.model.n_layers, n_kv_heads = run.model.n_kv_heads;
  return {n_layers, n_kv_heads, std::vector<float>(static_cast<std::size_t>(n_layers) * n_kv_heads, kNaN)};
}

/// Calls visit(index of the head in a map, its |D_g|, its layer's |o W_o|) for every head of a run that was measured.
template <typename Visit>
void each_head(const RunRecord& run, Visit visit) {
  const OutputError& error = run.output_error;
  std::size_t i = 0;
  for (int layer = 0; layer < error.group_damage.n_layers(); ++layer) {
    for (int head = 0; head < error.group_damage.n_kv_heads(); ++head) {
      visit(i++, std::span(error.group_damage.row(layer, head)), std::span(error.layer_output.row(layer, 0)));
    }
  }
}

}  // namespace

HeadMap output_error_at(const RunRecord& run, std::int32_t q) {
  HeadMap map = empty_map(run);
  if (q < 0 || q >= run.output_error.n_queries()) return map;
  each_head(run, [&](std::size_t i, auto damage, auto output) { map.values[i] = damage[q] / output[q]; });
  return map;
}

OutputErrorMap output_error_map(const RunRecord& run, std::int32_t q) {
  OutputErrorMap result{empty_map(run), {}};
  result.n_queries.resize(result.map.values.size(), 0);
  const std::int32_t last = std::min(q, run.output_error.n_queries() - 1);
  if (last < 0) return result;
  const auto n = static_cast<std::size_t>(last) + 1;
  each_head(run, [&](std::size_t i, auto damage, auto output) {
    const OutputErrorMean mean = mean_of(damage.first(n), output.first(n));
    result.map.values[i] = static_cast<float>(mean.value);
    result.n_queries[i] = mean.n_queries;
  });
  return result;
}

OutputErrorCurve output_error_curve(const RunRecord& run, int layer) {
  OutputErrorCurve curve;
  if (run.output_error.empty()) return {{}, {std::numeric_limits<double>::quiet_NaN(), 0}};
  const std::vector<float>& damage = run.output_error.layer_damage.row(layer, 0);
  const std::vector<float>& output = run.output_error.layer_output.row(layer, 0);
  for (std::size_t q = 0; q < damage.size(); ++q) curve.values.push_back(damage[q] / output[q]);
  curve.mean = mean_of(damage, output);
  return curve;
}

double mean_output_error(const RunRecord& run) {
  double sum = 0;
  int n = 0;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    const OutputErrorCurve curve = output_error_curve(run, layer);
    if (curve.values.empty() || std::isnan(curve.mean.value)) continue;
    sum += curve.mean.value;
    ++n;
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

HeadMap read_mass_map(const RunRecord& run, const HeadSeries<float>& of_reads, std::int32_t q) {
  HeadMap map{run.model.n_layers, run.model.n_kv_heads, {}};
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      double sum = 0;
      int n = 0;
      for (std::int32_t at = 0; !of_reads.empty() && at <= q && at < std::ssize(of_reads.row(layer, head)); ++at) {
        const float share = of_reads.row(layer, head)[static_cast<std::size_t>(at)];
        if (std::isnan(share)) continue;
        sum += share;
        ++n;
      }
      map.values.push_back(static_cast<float>(sum / n));  // 0 / 0 is the NaN of no query
    }
  }
  return map;
}

std::string output_error_note(const RunRecord& run, std::int32_t q) {
  if (run.output_error.empty()) return "Not measured in this run (--output-error).";
  const std::vector<int> counts = output_error_map(run, q).n_queries;
  const auto none = std::ranges::count(counts, 0);
  const auto heads = [](std::ptrdiff_t n) { return std::to_string(n) + (n == 1 ? " head" : " heads"); };
  if (none == std::ssize(counts)) return "Nothing was evicted or left unread.";
  int least = std::numeric_limits<int>::max();
  for (const int n : counts) {
    if (n > 0) least = std::min(least, n);
  }
  const int most = std::ranges::max(counts);
  std::string text = "Means over " + std::to_string(least);
  if (most > least) text += " to " + std::to_string(most);
  text += (most == 1 ? " query of " : " queries of ") + heads(std::ssize(counts) - none);
  if (none > 0) text += "; " + heads(none) + " lost nothing";
  return text + ".";
}

std::string why_not_measurable(const PolicySpec& spec) {
  const RetentionPlan plan = policy_of(spec).plan(spec, {});
  if (plan.selection.tokens == 0 || plan.keeps_everything()) return {};
  return "Output error cannot be measured for a policy that both evicts and reads pages, because pages are recorded "
         "by slot.";
}

void check_measurable(const PolicySpec& spec) {
  if (why_not_measurable(spec).empty()) return;
  throw Error({.code = ExitCode::usage,
               .file = "output error",
               .where = "policy",
               .found = spec.to_string() + ", which evicts and reads pages",
               .expected = "a policy that does only one of the two, because pages are recorded by slot"});
}

}  // namespace kvscope
