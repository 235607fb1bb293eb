#pragma once
// Which future attention the oracle goes by: the choices that KVpop and its workshop version leave open.

#include <string>
#include <string_view>

namespace kvscope {

/// For token t of a run of S queries, with m_t^(g) of query head g (KVpop eq. 2, 3, 8; App. B, D):
///
///     m_t^(g) = sum over q in [t + window, min(S, t + window + ahead + 1)) of exp(logit(q, t) - lse_q)
///     mass=mean: divided by the number of these queries, at least 1
///     target_t = agg over the group of log(1e-6 + m_t^(g))
///
/// Written agg=max,mass=mean,lse=dense,ahead=0.
struct OracleSpec {
  enum class Aggregate { max, mean };  // mean: of the logarithms
  Aggregate aggregate = Aggregate::max;
  bool normalised = true;   // mass=mean; else mass=sum, as in the workshop version
  bool sparse_lse = false;  // lse=sparse: of what the policy kept for q; else lse=dense: the teacher's own, exact
  int look_ahead = 0;       // tokens; 0: to the end
  bool operator==(const OracleSpec&) const = default;

  /// Throws Error (usage) that lists what there is.
  static OracleSpec parse(std::string_view text);
  std::string to_string() const;
  /// "largest of the group of the mean attention of all later queries, ..." for whatever shows a number made by it.
  std::string definition() const;
};

}  // namespace kvscope
