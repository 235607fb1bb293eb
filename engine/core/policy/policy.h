#pragma once
// What one policy is to the rest of the project: its declaration and its plan. One file a policy, listed in
// policy_list.cpp.

#include <memory>

#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// The largest number of tokens that a parameter may name; 16 Mi positions.
inline constexpr double kMaxTokens = 1 << 24;
/// The window of policies that name none (full): the window of the others by default, so that density, oracle and
/// previews of a full run look at the same tokens.
inline constexpr int kDefaultWindow = 64;
inline constexpr int kDefaultSinks = 4;

/// The heads of a model, as hybrids choose among them.
struct HeadsOfModel {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> alpha;  // [n_layers * n_kv_heads] from a loaded head directory; empty: none is loaded
};

struct Policy {
  PolicyInfo info;
  /// Geometry of a run of n_positions; may throw Error.
  RetentionGeometry (*geometry)(const PolicySpec& spec, int n_positions);
  RetentionPlan (*plan)(const PolicySpec& spec, const RetentionGeometry& geometry);
  /// Of a policy that treats heads apart, RetentionPlan::local_heads. Throws std::invalid_argument if it wants alpha
  /// and there is none.
  std::vector<std::uint8_t> (*local_heads)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
};

// One file each, in the order in which they are offered.
const Policy& full_policy();
const Policy& streaming_policy();
const Policy& kvpop_policy();
const Policy& sp_kv_policy();
const Policy& wg_kv_policy();
const Policy& dms_policy();
const Policy& kvzap_policy();
const Policy& threshold_policy();
const Policy& top_k_policy();
const Policy& tova_policy();
const Policy& h2o_policy();
const Policy& snapkv_policy();
const Policy& expected_attention_policy();
const Policy& duo_policy();
const Policy& hybrid_policy();
const Policy& quest_policy();
const Policy& random_policy();

/// Like find_policy(), with geometry and plan; throws Error (usage) listing the policies if there is none of that name.
const Policy& policy_of(const PolicySpec& spec);

/// Which head of which model: hybrids treat heads apart.
struct HeadIndex {
  int layer = 0, kv_head = 0;
  int n_layers = 1, n_kv_heads = 1;
  int flat() const { return layer * n_kv_heads + kv_head; }
};
/// What becomes of the tokens that leave the window of one head; compression apart. Throws std::logic_error for a plan
/// that evicts by attention, token by token.
std::unique_ptr<LifetimeRule> make_rule(const RetentionPlan& plan, const RetentionGeometry& geometry, int head = 0);

// What several policies share. ------------------------------------------------------------------------------------

/// sinks, window and, for a policy with a budget, top_k = budget - sinks - window; throws Error if that is negative.
RetentionGeometry budget_geometry(const PolicySpec& spec, int n_positions);
/// The same without a budget: everything may stay.
RetentionGeometry open_geometry(const PolicySpec& spec, int n_positions);

// Parameters that several policies share.
inline constexpr ParameterInfo kSinksParameter{"sinks",
                                               ParameterKind::tokens,
                                               "tokens",
                                               kDefaultSinks,
                                               0,
                                               kMaxTokens,
                                               "First tokens of the text that always stay."};
inline constexpr ParameterInfo kWindowParameter{
    "window",
    ParameterKind::tokens,
    "tokens",
    kDefaultWindow,
    1,
    kMaxTokens,
    "Newest tokens, the query's own included, that always stay: query q sees t > q - window."};

inline constexpr ParameterInfo kBudgetParameter{
    "budget",
    ParameterKind::tokens,
    "tokens",
    512,
    1,
    kMaxTokens,
    "Tokens a head may hold: sinks + window + top_k. Also as keep=25% or compression=4x of the run's positions."};
inline constexpr ParameterInfo kDecayParameter{
    "decay",
    ParameterKind::real,
    "",
    1,
    1e-6,
    1,
    "gamma: a token loses -log(gamma) of score for every stride of age; 1 is none."};
inline constexpr ParameterInfo kStrideParameter{
    "stride",
    ParameterKind::count,
    "tokens",
    1,
    1,
    kMaxTokens,
    "n of KVpop eq. 5: a token loses log(decay) once every n tokens of age."};
inline constexpr ParameterInfo kSeedParameter{"seed",     ParameterKind::count,    "", 0, 0,
                                              kMaxTokens, "Seed of what is drawn."};
inline constexpr ParameterInfo kReadParameter{
    "read",
    ParameterKind::tokens,
    "tokens",
    0,
    0,
    kMaxTokens,
    "Tokens that a query reads, in pages of 16 chosen by Quest's bound; nothing leaves by it. 0: all."};
inline constexpr ParameterInfo kPoolParameter{
    "pool",
    ParameterKind::tokens,
    "tokens",
    0,
    0,
    kMaxTokens,
    "Long-range tokens that the heads may hold in the mean (WG-KV App. K): above it each head drops those of least "
    "observed attention. 0: no limit."};
inline constexpr ParameterInfo kDropParameter{
    "drop", ParameterKind::real, "", 0.1, 0.001, 0.999, "Share of its long-range tokens that a head drops then."};
inline constexpr ParameterInfo kObserveParameter{
    "observe",
    ParameterKind::tokens,
    "tokens",
    256,
    1,
    4096,
    "Newest queries, no more than the window, whose attention decides what the pool drops: maximum over the group, sum "
    "over these queries, maximum over 5 neighbours."};

/// Throws Error unless budget > n_protected: somebody must be able to leave.
void check_protected(const PolicySpec& spec, int budget, int n_protected, int n_positions);
/// All but the round(share * heads) heads of greatest alpha; of equal ones the earlier head is global.
std::vector<std::uint8_t> least_heads_local(const HeadsOfModel& heads, double share);

/// What kReadParameter, and kPoolParameter with the two behind it, ask for.
Selection selection_of(const PolicySpec& spec);
Compression pool_of(const PolicySpec& spec, const RetentionGeometry& geometry);

inline constexpr std::string_view kPrefillChoices[] = {"dense", "sparse"};
inline constexpr ParameterInfo kPrefillParameter{"prefill",
                                                 ParameterKind::choice,
                                                 "",
                                                 0,
                                                 0,
                                                 1,
                                                 "dense: the prompt's queries see everything and eviction begins after "
                                                 "it, as published; sparse: it goes through token "
                                                 "by token like the answer.",
                                                 kPrefillChoices};

}  // namespace kvscope
