#pragma once
// What the files of several policies share: geometries, plans and who is local.

#include <optional>

#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_parameters.h"

namespace kvscope {

/// sinks, window and, for a policy with a budget, top_k = budget - sinks - window; throws Error if that is negative, or less than a
/// pool keeps free for kIntervalParameter.
RetentionGeometry budget_geometry(const PolicySpec& spec, int n_positions);
/// kIntervalParameter where all heads share a budget; 0: each has its own, or it is cut at every token of the answer.
int pool_interval(const PolicySpec& spec);
/// The same without a budget: everything may stay.
RetentionGeometry open_geometry(const PolicySpec& spec, int n_positions);
/// Throws Error unless budget > sinks + n_protected: somebody must be able to leave.
void check_protected(const PolicySpec& spec, int budget, int n_protected, int n_positions);

/// The contest for top_k places, each head's own or, by kCapacityParameter, of all heads together. Without a place there is
/// nothing to share.
RetentionPlan top_k_plan(const PolicySpec& spec, const RetentionGeometry& geometry, ScoreSource source);
/// Of such a policy: between two cuts of what is each head's own nothing happens.
bool uses_top_k(const PolicySpec& spec, std::string_view parameter);
/// Admission by a gate's score and the parameters `threshold`, or kDensityParameter, and `strict`.
RetentionPlan threshold_plan(const PolicySpec& spec);
/// Of a policy with these, whether a parameter means anything beside a density.
bool uses_density(const PolicySpec& spec, std::string_view parameter);
/// The same, with what kReadParameter and kPoolParameter ask for.
RetentionPlan gated_plan(const PolicySpec& spec, const RetentionGeometry& geometry);
/// In the words of the pool for what left by it, of the threshold for the rest.
std::string explain_gated(const TokenQuestion& question);

/// Of the parameters `full` and `count`: how many heads are to be global. Throws Error (usage) if the model has fewer.
int global_heads(const PolicySpec& spec, const HeadsOfModel& heads);
/// The spec with `full` as the share that `own` heads, or without it `count`, are of the model's; as it is without
/// either. Throws Error (usage) if another number of heads stands there: it would be passed over in silence.
PolicySpec spec_with_share(const PolicySpec& spec, const HeadsOfModel& heads, std::optional<int> own);

/// What the three parameters of an allocation say; uniform for a policy without them.
Allocation allocation_of(const PolicySpec& spec);
/// Whether a parameter of an allocation means anything beside the others; true of any other parameter.
bool uses_allocation(const PolicySpec& spec, std::string_view parameter);
/// Throws Error (usage) for an allocation by scores where the prompt evicts token by token: scores are known at its end.
void check_allocation(const PolicySpec& spec);
/// Rows of thresholds in the letters of the paper, and what the pool does beside them.
DecisionLog log_gated(const LogQuestion& question);
/// What the pool needs is asked only where there is one.
bool uses_gated(const PolicySpec& spec, std::string_view parameter);
/// "12 of 24 heads global = 50 %".
std::string count_global(const std::vector<std::uint8_t>& local_heads, const char* word);

}  // namespace kvscope
