#include "tests/engine/plain_rules.h"

#include <algorithm>
#include <cmath>

namespace kvscope::test {

std::vector<int> range(int n) {
  std::vector<int> out;
  for (int t = 0; t < n; ++t) out.push_back(t);
  return out;
}

Evictions evictions(const RunRecord& run, int layer, int head, int until) {
  Evictions out;
  const std::vector<std::int32_t>& row = run.evict_at.row(layer, head);
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(row.size()); ++t) {
    if (row[static_cast<std::size_t>(t)] <= until) out[t] = row[static_cast<std::size_t>(t)];
  }
  return out;
}

void keep_best(std::vector<int>& held, std::vector<double> worth, int budget, int n_sink, int fixed_from,
               std::int32_t evict_at, Evictions& out) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] < n_sink || held[i] >= fixed_from) worth[i] = INFINITY;
  }
  std::vector<int> stays;
  for (const int i : greatest(worth, budget)) stays.push_back(held[static_cast<std::size_t>(i)]);
  std::sort(stays.begin(), stays.end());
  for (const int t : held) {
    if (!std::binary_search(stays.begin(), stays.end(), t)) out[t] = evict_at;
  }
  held = stays;
}

std::vector<double> mean_attention(const PlainLayer& layer, int query, int first, int n, const std::vector<int>& keys) {
  std::vector<double> mean(keys.size());
  for (int head = first; head < first + n; ++head) {
    const std::vector<double> p = attention(layer, query, head, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) mean[i] += p[i] / n;
  }
  return mean;
}

void drop_least(std::vector<int>& held, std::vector<double>& worth, int end, std::int32_t evict_at, Evictions& out) {
  std::size_t least = held.size();
  for (std::size_t i = 0; i < held.size() && held[i] < end; ++i) {
    if (least == held.size() || worth[i] <= worth[least]) least = i;
  }
  out[held[least]] = evict_at;
  held.erase(held.begin() + static_cast<std::ptrdiff_t>(least));
  worth.erase(worth.begin() + static_cast<std::ptrdiff_t>(least));
}

std::vector<double> snap_scores(const PlainLayer& layer, int kv_head, const std::vector<int>& held, int n, int observe,
                                const Snap& how) {
  const auto n_before = static_cast<int>(std::lower_bound(held.begin(), held.end(), n - observe) - held.begin());
  const int group = layer.group_size();
  std::vector<double> seen(held.size());  // over the group: the mean; or the maximum, which is summed over queries
  for (int query = n - observe; query < n; ++query) {
    std::vector<double> of_query(held.size());
    for (int g = 0; g < group; ++g) {
      const std::vector<double> p = attention(layer, query, kv_head * group + g, held);
      for (std::size_t i = 0; i < held.size(); ++i)
        of_query[i] = how.group_max ? std::max(of_query[i], p[i]) : of_query[i] + p[i] / group;
    }
    for (std::size_t i = 0; i < held.size(); ++i) seen[i] += how.group_max ? of_query[i] : of_query[i] / observe;
  }
  std::vector<double> score(held.size());
  for (int i = 0; i < n_before; ++i) {
    double sum = 0, most = 0;
    for (int j = std::max(0, i - how.kernel / 2); j <= std::min(n_before - 1, i + how.kernel / 2); ++j) {
      sum += seen[static_cast<std::size_t>(j)];
      most = std::max(most, seen[static_cast<std::size_t>(j)]);
    }
    // Beyond the ends lie zeros, which count in the mean.
    score[static_cast<std::size_t>(i)] = how.max_pooling ? most : sum / how.kernel;
  }
  return score;
}

/// Mean over positions first ... first + n - 1 of x turned to them.
static std::vector<double> turned(const std::vector<double>& x, const std::vector<double>& inv_freq, int first, int n) {
  const std::size_t half = x.size() / 2;
  std::vector<double> out(x.size());
  for (int position = first; position < first + n; ++position) {
    for (std::size_t c = 0; c < half; ++c) {
      const double angle = position * inv_freq[c];
      out[c] += (x[c] * std::cos(angle) - x[c + half] * std::sin(angle)) / n;
      out[c + half] += (x[c + half] * std::cos(angle) + x[c] * std::sin(angle)) / n;
    }
  }
  return out;
}

std::vector<double> expected_scores(const PlainLayer& layer, const std::vector<double>& inv_freq, int kv_head,
                                    const std::vector<int>& held, int first_query, int n, int n_sink, int n_future,
                                    const Expected& how) {
  const int d = layer.q.dim, group = layer.group_size(), n_queries = n - first_query;
  std::vector<double> score(held.size());
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    std::vector<double> mean(static_cast<std::size_t>(d));
    for (int t = first_query; t < n; ++t) {
      for (int c = 0; c < d; ++c) mean[static_cast<std::size_t>(c)] += layer.q_unrotated.at(t, head)[c] / n_queries;
    }
    const std::vector<double> mu = turned(mean, inv_freq, n, n_future);
    // k^T R Sigma R^T k is the mean of (k . R (q - mu))^2, and R x the mean of x turned.
    std::vector<std::vector<double>> centred;
    for (int t = first_query; how.covariance && t < n; ++t) {
      std::vector<double> x(layer.q_unrotated.at(t, head), layer.q_unrotated.at(t, head) + d);
      for (std::size_t c = 0; c < x.size(); ++c) x[c] -= mean[c];
      centred.push_back(turned(x, inv_freq, n, n_future));
    }
    std::vector<double> weight(held.size());
    double sum = sink_weight(layer, head);
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held[i] < n_sink) continue;
      const double* k = layer.k.at(held[i], kv_head);
      double logit = dot(mu.data(), k, d) / std::sqrt(static_cast<double>(d));
      for (const auto& x : centred) logit += std::pow(dot(x.data(), k, d), 2) / n_queries / (2 * d);
      sum += weight[i] = std::exp(logit);
    }
    for (std::size_t i = 0; i < held.size(); ++i) score[i] += weight[i] / sum / group;
  }
  for (std::size_t i = 0; how.values && i < held.size(); ++i) {
    const double* v = layer.v.at(held[i], kv_head);
    if (held[i] >= n_sink) score[i] = (score[i] + how.epsilon) * std::sqrt(dot(v, v, d));
  }
  return score;
}

}  // namespace kvscope::test
