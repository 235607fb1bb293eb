#pragma once
// A threshold that is solved for a share: how many tokens stay is given, at which score is found.

#include <span>
#include <string>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"
#include "engine/core/support/error.h"

namespace kvscope {

/// The threshold at which the kept share of `scores` is nearest to `density`; of two equally near the larger share stays:
///
///     |#{score >= threshold} / #scores - density|  least     (strict: >)
///
/// Scores that are equal stay or leave together, a NaN leaves. Between two scores it is their midpoint, so that the last
/// bits of a score, which differ by device and chunk, decide nothing. Throws std::invalid_argument without scores.
float solve_threshold(std::span<const float> scores, double density, bool strict);

/// Positions begin <= t < end.
struct TokenRange {
  int begin, end;
  int size() const { return end > begin ? end - begin : 0; }
};
/// Whom a text of n_tokens is judged by, see solve_density(). Throws Error (bad input) if there is none.
TokenRange judged_range(const RetentionGeometry& geometry, int n_tokens, int delay);

/// The plan's thresholds for its density, [n_layers * n_kv_heads], from the raw scores of a text of n_tokens,
/// [n_layers][n_kv_heads][>= n_tokens]. Its share is of the tokens that have left the window by the last query,
///
///     n_sink <= t < n_tokens - window,
///
/// of a text too short for that, of all n_sink <= t < n_tokens - delay, which will leave it later; of heads that are
/// local, of none: their threshold is infinite where each head has its own. delay: between a token and its score. Throws
/// Error (bad input) for a text without any such token.
std::vector<float> solve_density(const RetentionPlan& plan, const RetentionGeometry& geometry,
                                 const HeadSeries<float>& scores, int n_tokens, int delay);

/// How far the shares that the thresholds keep of the same tokens are from the density: of all heads together, or the mean
/// over the heads, local ones apart.
double density_error(const RetentionPlan& plan, const RetentionGeometry& geometry, std::span<const float> thresholds,
                     const HeadSeries<float>& scores, int n_tokens, int delay);

/// "density 25 %: threshold 0.0371", or of each head's own "density 25 % of each head: thresholds 0.002 ... 0.41, median
/// 0.0371"; empty without thresholds.
std::string describe_density(const PolicySpec& spec, std::span<const float> thresholds);

/// For whoever has no text to solve on.
Error not_solved(const PolicySpec& spec);

}  // namespace kvscope
