#pragma once
// How much each KV head needs what lies outside its window, measured on pieces of text, and how far the order of heads that
// comes of it holds from piece to piece.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// A number for each head, [n_layers * n_kv_heads]; of greater ones a head rather stays global.
using HeadValues = std::vector<double>;

/// The same on each piece of text; a signal that was read from a file is one piece.
struct HeadSignal {
  std::string name;  // "density"
  std::vector<HeadValues> pieces;

  HeadValues mean() const;
  /// Standard deviation over the pieces, divisor n - 1; NaN for fewer than two.
  HeadValues deviation() const;
};

/// Share of the long-range tokens t <= q - window, q the run's last query, that `gated` keeps by the run's scores, every
/// decision final (SP-KV's rho): a `score --chunk N` would count those that its last chunk has not let go yet. Heads that
/// the run itself kept local are counted as if they were not. Throws Error as policy_lifetimes() does, and for a run no
/// longer than the window.
HeadValues admitted_density(const RunRecord& run, const PolicySpec& gated);

/// The threshold of each head at which its share of the run's scores of tokens n_sink <= t <= q - window, q the last query, is
/// nearest to `shares` (solve_threshold()); of a head that shall keep none, infinite. Throws Error as admitted_density().
std::vector<float> thresholds_of_shares(const RunRecord& run, const PolicySpec& gated, const HeadValues& shares);

/// Share of the attention of the queries q >= n_sink + window that goes to tokens n_sink <= t <= q - window in the dense
/// pass of the oracle, mean over queries and the group's query heads: what a local head would lose. The run's oracle is
/// kMassOfLocal's.
HeadValues mass_lost_if_local(const RunRecord& run);
inline constexpr const char* kMassOfLocal = "agg=mean,mass=sum";

/// Kendall's tau-b of two lists: (C - D) / sqrt((n0 - ta) (n0 - tb)) with C concordant and D discordant pairs of n0 =
/// n (n - 1) / 2, ta and tb pairs tied in one list. NaN where a list is constant.
double kendall_tau(std::span<const double> a, std::span<const double> b);

/// Heads from the greatest value down; of equal ones the lower layer, then the lower head.
std::vector<int> ranking(std::span<const double> values);

/// 1 for a head that is global, [n_layers * n_kv_heads].
using GlobalHeads = std::vector<std::uint8_t>;
int count_of(const GlobalHeads& heads);

/// Share of the heads of `from` that `to` does not have; NaN for none.
double turnover(const GlobalHeads& from, const GlobalHeads& to);

/// Mean turnover over all pairs of choices; NaN for fewer than two. Of choices of equal size it does not matter which of two is
/// the first.
double mean_turnover(std::span<const GlobalHeads> choices);

/// The part of all retained long-range entries that lies in the chosen heads: sum of their densities / sum of all, as every
/// head has equally many tokens. NaN for 0 / 0.
double coverage(std::span<const double> density, const GlobalHeads& heads);

/// Bytes of keys and values: a global head holds `context` tokens, a local one its sinks and window, a head of density d
/// these and d of the others.
struct CacheShape {
  int context = 0, n_sink = 0, window = 0;
  double bytes_per_token = 0;  // of one head: 2 * head_dim * bytes of a number
  double bytes(int n_global, int n_heads) const;
  double bytes(std::span<const double> density) const;
  /// The most global heads whose cache is not larger than `limit`; -1 if that of none is.
  int most_global(double limit, int n_heads) const;
};

/// Mean of a sample with its standard error s / sqrt(n) and Student's 95 % interval; these are NaN for fewer than two.
struct MeanInterval {
  double mean = 0, se = 0, low = 0, high = 0;
  int n = 0;
};
MeanInterval mean_interval(std::span<const double> sample);

}  // namespace kvscope
