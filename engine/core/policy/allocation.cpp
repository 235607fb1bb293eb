#include "engine/core/policy/allocation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/core/lifetime/running_top_k.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/policy_shared.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

struct Candidate {
  float worth;
  std::size_t head, index;
};

/// How many of the `n` best candidates each head has.
std::vector<int> winners(std::span<const std::vector<float>> worth, std::size_t n) {
  std::vector<Candidate> all;
  for (std::size_t head = 0; head < worth.size(); ++head) {
    for (std::size_t i = 0; i < worth[head].size(); ++i) {
      const float value = worth[head][i];
      all.push_back({std::isnan(value) ? -std::numeric_limits<float>::infinity() : value, head, i});
    }
  }
  std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.worth, a.head, a.index) < std::tuple(-b.worth, b.head, b.index);
  });
  std::vector<int> count(worth.size(), 0);
  for (std::size_t i = 0; i < std::min(n, all.size()); ++i) ++count[all[i].head];
  return count;
}

/// Shares as whole numbers of the same sum.
std::vector<int> rounded(const std::vector<double>& shares, int sum) {
  constexpr double kRounding = 1e-9;  // a share that is whole may come out a little less
  std::vector<int> out;
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const double share : shares) out.push_back(static_cast<int>(std::floor(share + kRounding)));
  const auto rest = [&](std::size_t i) { return std::max(0.0, shares[i] - out[i]); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rest(a) > rest(b) + kRounding; });
  const int left = sum - std::accumulate(out.begin(), out.end(), 0);
  for (int i = 0; i < left; ++i) ++out[order[static_cast<std::size_t>(i) % order.size()]];
  return out;
}

[[noreturn]] void refuse_budgets(const std::string& file, std::string where, std::string found, std::string expected) {
  throw Error({.file = file,
               .where = std::move(where),
               .found = std::move(found),
               .expected = std::move(expected),
               .hint = "one line per layer, one number of tokens per KV head"});
}

}  // namespace

std::vector<int> pyramid_places(int n_layers, int places, double beta, int limit) {
  int least = static_cast<int>(std::floor(places / beta)), most = 2 * places - least;
  if (most > limit) most = std::max(limit, places), least = 2 * places - most;
  const int step = n_layers > 1 ? (most - least) / (n_layers - 1) : 0;
  std::vector<int> out;
  for (int layer = 0; layer < n_layers; ++layer) out.push_back(n_layers > 1 ? most - layer * step : places);
  return out;
}

std::vector<int> ada_places(std::span<const std::vector<float>> worth, int places, double safeguard) {
  const auto fits = [&](const std::vector<float>& one) { return one.size() <= static_cast<std::size_t>(places); };
  if (std::ranges::all_of(worth, fits)) return std::vector<int>(worth.size(), places);
  const std::size_t n = worth.size() * static_cast<std::size_t>(places);
  std::vector<double> shares;
  for (const int count : winners(worth, n)) shares.push_back(safeguard * places + (1 - safeguard) * count);
  return rounded(shares, static_cast<int>(n));
}

std::vector<int> places_by_share(std::vector<double> shares, int total) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = total * (sum > 0 ? share / sum : 1.0 / static_cast<double>(shares.size()));
  return rounded(shares, total);
}

std::vector<int> places_of_heads(const RetentionPlan& plan, const RetentionGeometry& geometry, int n_layers,
                                 int n_kv_heads) {
  if (!plan.allocation.by_layer()) return {};
  const int limit = geometry.n_positions - geometry.n_sink - geometry.window;
  std::vector<int> out;
  for (const int places : pyramid_places(n_layers, geometry.top_k, plan.allocation.beta, limit))
    out.insert(out.end(), static_cast<std::size_t>(n_kv_heads), places);
  return out;
}

std::vector<int> solve_places(const RetentionPlan& plan, const RetentionGeometry& geometry,
                              const HeadSeries<float>& scores, int n_tokens, int delay) {
  const TokenRange judged = judged_range(geometry, n_tokens, delay);
  const int heads = scores.n_kv_heads();
  std::vector<int> out;
  for (int layer = 0; layer < scores.n_layers(); ++layer) {
    if (plan.is_local(layer * heads)) {  // the model's own window: its budget is not the policy's
      out.insert(out.end(), static_cast<std::size_t>(heads), geometry.top_k);
      continue;
    }
    std::vector<std::vector<float>> worth(static_cast<std::size_t>(heads));
    for (int head = 0; head < heads; ++head) {
      const RetentionGeometry of_head = plan.of_head(geometry, layer * heads + head);
      for (int t = judged.begin; t < judged.end; ++t) {
        worth[static_cast<std::size_t>(head)].push_back(
            effective_score(scores.row(layer, head)[static_cast<std::size_t>(t)], t, n_tokens - 1,
                            static_cast<float>(of_head.log_gamma), of_head.decay_stride));
      }
    }
    const int places = plan.of_head(geometry, layer * heads).top_k;
    const std::vector<int> of_layer = ada_places(worth, places, plan.allocation.safeguard);
    out.insert(out.end(), of_layer.begin(), of_layer.end());
  }
  return out;
}

bool takes_budgets(const PolicySpec& spec) {
  const auto is_set = [&](const char* parameter) { return spec.has(parameter) && spec.value(parameter) != 0; };
  if (spec.declared != nullptr) return false;  // how it divides its budget is the engine's
  return policy_of(spec).info.has_budget && !is_set("allocation") && !is_set("capacity") && !is_set("pool");
}

std::string describe_budgets(const PolicySpec& spec, const HeadRules& heads) {
  if (heads.empty() || !policy_of(spec).info.has_budget) return {};
  int least = kNever, most = 0;
  double sum = 0, n = 0;
  for (const HeadRule& head : heads) {
    if (head.locality == Locality::model) continue;
    least = std::min(least, head.budget());
    most = std::max(most, head.budget());
    sum += head.budget(), ++n;
  }
  if (least >= most) return {};
  constexpr const char* kBy[] = {"as given", "by PyramidKV", "by AdaKV", "by PyramidKV and AdaKV"};
  const char* const by = spec.declared != nullptr ? "by the engine" : kBy[static_cast<int>(allocation_of(spec).kind)];
  return "budgets " + std::string(by) + ": " + std::to_string(least) + " to " + counted(most, "token") +
         " per head, mean " + number_text(sum / n, 4);
}

std::vector<std::int32_t> budgets_of_text(std::string_view text, const std::string& file) {
  constexpr std::string_view kBetween = " \t\r,";
  std::vector<std::int32_t> budgets;
  std::size_t width = 0;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find_first_of("\n;"), text.size());
    std::string_view rest = text.substr(0, std::min(text.find('#'), end));
    text.remove_prefix(std::min(text.size(), end + 1));
    const std::size_t before = budgets.size();
    while (rest.find_first_not_of(kBetween) != std::string_view::npos) {
      rest.remove_prefix(rest.find_first_not_of(kBetween));
      const std::string_view word = rest.substr(0, rest.find_first_of(kBetween));
      rest.remove_prefix(word.size());
      std::int32_t value = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
      if (read.ec != std::errc() || read.ptr != word.data() + word.size() || value < 1 || value > (1 << 24))
        refuse_budgets(file, "line " + std::to_string(line), in_quotes(word), "a number of tokens from 1");
      budgets.push_back(value);
    }
    const std::size_t n = budgets.size() - before;
    if (n == 0) continue;
    if (width != 0 && n != width)
      refuse_budgets(file, "line " + std::to_string(line), std::to_string(n) + " numbers",
                     std::to_string(width) + ", as in the lines before");
    width = n;
  }
  if (budgets.empty()) refuse_budgets(file, "", "no numbers", "the budgets of all heads");
  return budgets;
}

}  // namespace kvscope
