#pragma once
// Which oracle a run is held against: how future attention is counted, what it is weighed with, and how much it may
// keep.

#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

/// How the attention that a token gets from later queries becomes one number, and what it is multiplied by.
enum class OracleMass { mean, sum, rms, max };
enum class OracleWeight { mass, value, output };

/// For token t of a run of S queries, with p_{q->t}^(h) of query head h and N_t queries in
/// [t + window, min(S, t + window + ahead + 1)) (KVpop eq. 2, 3, 8; App. B, D):
///
///     mass=mean   m_t^(h) = 1 / N_t  sum_q p      the papers'
///     mass=sum    sum_q p                         KVpop eq. 13, 14
///     mass=rms    sqrt(1 / N_t  sum_q p^2)        a fact that is read once does not drown in it
///     mass=max    max_q p
///     weight=mass    w_t^(h) = 1
///     weight=value   |v_t|
///     weight=output  |W_o^(h) v_t| over the layer's mean |o W_o|, so that heads compare
///     effect_t = agg over the query heads of the group of m_t^(h) w_t^(h);  target_t = log(1e-6 + effect_t)
///
/// At query q the oracle holds the capacity c(q) best of the head's eligible tokens n_sink <= t <= q - window:
///
///     budget=match   c(q) = what the policy keeps of them
///     budget=N, P%   c(q) = min(eligible, N - n_sink - window): tokens, or a share of the run, as in a policy
///     capacity=head, pooled   each head has its own; or all heads share the sum of theirs
///
/// None of these is an upper bound: each is greedy by one number a token, blind to what tokens do together.
/// Written agg=max,mass=mean,lse=dense,ahead=0; the others (weight=mass, capacity=head, budget=match, kinds=all) where
/// they are not the default.
struct OracleSpec {
  /// mean: of the probabilities (KVpop eq. 15); log_mean: of their logarithms (eq. 3 with a mean).
  enum class Aggregate { max, mean, log_mean };
  Aggregate aggregate = Aggregate::max;
  OracleMass mass = OracleMass::mean;
  OracleWeight weight = OracleWeight::mass;
  bool pooled = false;
  /// Tokens, sinks and window included, or with is_share a share of the run; none: as many as the policy keeps.
  struct Budget {
    double value = 0;
    bool is_share = false;
    bool operator==(const Budget&) const = default;
  };
  std::optional<Budget> budget;
  bool sparse_lse = false;  // lse=sparse: of what the policy kept for q; else lse=dense: the teacher's own, exact
  int look_ahead = 0;       // tokens; 0: to the end
  bool all_kinds = true;  // kinds=all: every mass and weight is recorded, to be shown side by side; one: mean and this
  bool operator==(const OracleSpec&) const = default;

  /// Throws Error (usage) that lists what there is.
  static OracleSpec parse(std::string_view text);
  std::string to_string() const;
  /// "largest of the group of the mean attention of all later queries, ..." for whatever shows a number made by it.
  std::string definition() const;
  /// "rms x output, 25 %, pooled": what tells it from the paper's, in short; "mean" for that.
  std::string title() const;
  /// The stated capacity in tokens of a run, sinks and window included; 0 for budget=match.
  int budget_tokens(int n_positions) const;
};

std::string_view to_string(OracleMass mass);      // "rms"
std::string_view to_string(OracleWeight weight);  // "output"

}  // namespace kvscope
