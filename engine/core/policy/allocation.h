#pragma once
// How a budget is divided among layers and heads, beside sinks and window ("places").

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// PyramidKV (Cai et al., 2024), section 4.2: the places of each layer, from the mean's `places`,
///
///     least = floor(places / beta)      most = 2 places - least
///     places of layer l = most - l floor((most - least) / (n_layers - 1))
///
/// Where no head can use more than `limit`, most is that and least 2 places - limit. One layer has the mean.
std::vector<int> pyramid_places(int n_layers, int places, double beta, int limit);

/// AdaKV (Feng et al., 2024), algorithm 1 with its safeguard s: the places of each head of one layer, from the worth of
/// the tokens that compete in it,
///
///     f_h = how many of the n_heads * places best of all heads' tokens are of head h
///     places of head h = s places + (1 - s) f_h
///
/// in whole places: rounded down, and what is left over goes to the largest remainders, of equal ones to the lower head,
/// so that the sum stays. Of tokens of equal worth those of the lower head count, then the older. A NaN is worth the
/// least. Where no head has more tokens than places nothing has to leave, and every head keeps `places`.
std::vector<int> ada_places(std::span<const std::vector<float>> worth, int places, double safeguard);

/// Whether heads may be given budgets under it: each has one of its own, and the policy does not divide it itself.
bool takes_budgets(const PolicySpec& spec);

/// The budgets of heads as a policy's plan divides them before any score is known: all but AdaKV's part. [n_layers *
/// n_kv_heads] places; empty: every head has the geometry's top_k.
std::vector<int> places_of_heads(const RetentionPlan& plan, const RetentionGeometry& geometry, int n_layers,
                                 int n_kv_heads);

/// ada_places() of every layer from the raw scores of a text of n_tokens, [n_layers][n_kv_heads][>= n_tokens]. The
/// tokens that compete are those of density.h: they have left the window by the last query. `plan` has its heads.
/// Scores decay as they do at the last query. Throws Error (bad input) for a text in which no token has a score.
std::vector<int> solve_places(const RetentionPlan& plan, const RetentionGeometry& geometry,
                              const HeadSeries<float>& scores, int n_tokens, int delay);

/// `total` places in proportion to shares of at least 0, rounded like ada_places(). Shares that are all 0 count as equal.
std::vector<int> places_by_share(std::vector<double> shares, int total);

/// "budgets by AdaKV: 32 to 118 tokens per head, mean 64"; empty where all heads have one.
std::string describe_budgets(const PolicySpec& spec, const HeadRules& heads);

/// Budgets as people write them: a line for each layer, or layers apart by ";", with a number for each KV head, apart by
/// spaces or commas: the tokens that the head may hold, sinks and window included. # begins a comment. `file` names it in
/// errors. Throws Error (bad input) with the line.
std::vector<std::int32_t> budgets_of_text(std::string_view text, const std::string& file);

}  // namespace kvscope
