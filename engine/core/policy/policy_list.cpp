// The list of policies, in the order in which they are offered. A new one is a file with its rule, a declaration and a
// place here.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "engine/core/policy/declared_names.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/pooled_plan.h"
#include "engine/core/support/error.h"

namespace kvscope {

Policy full_policy(), streaming_policy(), kvpop_policy(), sp_kv_policy(), wg_kv_policy(), dms_policy(), kvzap_policy(),
    tova_policy(), h2o_policy(), snapkv_policy(), expected_attention_policy(), duo_policy(), hybrid_policy(),
    quest_policy(), top_k_policy(), threshold_policy(), random_policy(), oracle_policy();

namespace {

const std::vector<Policy>& policies() {
  static const std::vector<Policy> list{full_policy(),
                                        streaming_policy(),
                                        kvpop_policy(),
                                        sp_kv_policy(),
                                        wg_kv_policy(),
                                        dms_policy(),
                                        kvzap_policy(),
                                        tova_policy(),
                                        h2o_policy(),
                                        snapkv_policy(),
                                        expected_attention_policy(),
                                        duo_policy(),
                                        hybrid_policy(),
                                        quest_policy(),
                                        top_k_policy(),
                                        threshold_policy(),
                                        random_policy(),
                                        oracle_policy()};
  return list;
}

/// The plan with what is known of the heads of a recorded run. Throws Error where lifetimes do not follow from that.
RetentionPlan recorded_plan(const PolicySpec& spec, const RetentionGeometry& geometry, const HeadIndex& head) {
  const Policy& policy = policy_of(spec);
  RetentionPlan plan = policy.plan(spec, geometry);
  if (!plan.follows_from_scores()) {
    throw Error({.file = "policy " + spec.name,
                 .found = spec.declared != nullptr ? "a policy whose rule is the engine's"
                                                   : "a policy that decides by attention",
                 .expected = "one whose lifetimes follow from recorded scores",
                 .hint = "run the model under this policy"});
  }
  plan.heads = recorded_head_rules(spec, geometry, plan, head);
  return plan;
}

/// Throws Error unless there is a score for every token that has left the window.
void check_scores(const PolicySpec& spec, const RetentionGeometry& geometry, std::size_t n_scores,
                  std::int32_t n_queries) {
  const std::int32_t n_needed = n_queries - geometry.window;  // scores 0 ... n_needed - 1 are read
  if (n_needed > geometry.n_sink && n_scores < static_cast<std::size_t>(n_needed)) {
    throw Error({.file = "policy " + spec.name,
                 .where = "scores",
                 .found = std::to_string(n_scores) + " scores",
                 .expected = std::to_string(n_needed) + ", one for each token that has left the window",
                 .hint = "record a run with a gate that scores tokens (--gate)"});
  }
}

}  // namespace

HeadRules recorded_head_rules(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                              const HeadIndex& head) {
  try {
    return head_rules(spec, geometry, plan, head.known());
  } catch (const std::invalid_argument&) {
    throw Error({.file = "policy " + spec.name,
                 .found = "heads from a head directory",
                 .expected = "a policy whose lifetimes follow from the recorded data",
                 .hint = "run the model under this policy"});
  }
}

std::span<const PolicyInfo> policy_list() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> result;
    for (const Policy& policy : policies()) result.push_back(policy.info);
    return result;
  }();
  return infos;
}

const PolicyInfo* find_policy(std::string_view name) {
  if (is_declared_name(name)) {
    const DeclaredPolicy* declared = find_declared(name);
    return declared == nullptr ? nullptr : &declared->policy.info;
  }
  for (const PolicyInfo& info : policy_list()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const PolicyInfo* find_policy(const PolicySpec& spec) {
  return spec.declared != nullptr ? &spec.declared->policy.info : find_policy(spec.name);
}

std::string SweepPoint::window() const { return ",window=" + std::to_string(std::clamp(budget / 4, 1, 64)); }

std::vector<std::string> swept_policies(const SweepPoint& at) {
  std::vector<std::string> all;
  for (const Policy& policy : policies()) {
    if (policy.sweep == nullptr) continue;
    const std::vector<std::string> some = policy.sweep(at);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

namespace {

/// Of policies that engines declare, one's own methods first: ": my.mine, hf.knorm, hf.vnorm and 30 more".
std::string known_names() {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> names = declared_names();
  std::ranges::stable_partition(names, [](const std::string& name) { return name.starts_with("my."); });
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i == 0 ? ": " : ", ") + names[i];
  return list + (names.size() > kMost ? " and " + std::to_string(names.size() - kMost) + " more" : "");
}

}  // namespace

const Policy& policy_of(const PolicySpec& spec) {
  if (spec.declared != nullptr) return spec.declared->policy;
  if (is_declared_name(spec.name)) {
    throw Error({.code = ExitCode::usage,
                 .file = "policy",
                 .found = "no policy named \"" + escape_for_terminal(spec.name) + "\"",
                 .expected = "a policy that the engine declares" + known_names(),
                 .hint = "kvscope policies --engine COMMAND lists them"});
  }
  std::string names;
  for (const Policy& policy : policies()) {
    if (policy.info.name == spec.name) return policy;
    names += (names.empty() ? "" : ", ") + std::string(policy.info.name);
  }
  throw Error({.code = ExitCode::usage,
               .file = "policy",
               .found = "no policy named \"" + escape_for_terminal(spec.name) + "\"",
               .expected = "one of " + names});
}

PolicySpec with_gates(const PolicySpec& spec, const GatesOfPolicy& gates) {
  const Policy& policy = policy_of(spec);
  PolicySpec out = spec;
  const auto take = [&](const GateDefaults& defaults) {
    for (const auto& [name, value] : defaults) {
      const auto parameter = std::find_if(policy.info.parameters.begin(), policy.info.parameters.end(),
                                          [&](const ParameterInfo& p) { return p.name == name; });
      if (parameter == policy.info.parameters.end() || !spec.is_open(name) || spec.is_replaced(name)) continue;
      check_value(spec.name + ", from the gate", *parameter, value);
      out.values[std::string(name)] = value;
    }
  };
  if (gates.scorer != nullptr) take(policy.of_scorer(*gates.scorer));
  if (gates.heads != nullptr) take(defaults_of_heads(*gates.heads));
  out.forget_replaced();
  return out.closed();
}

void policy_lifetimes(const PolicySpec& spec, int n_positions, std::span<const float> scores, std::int32_t n_queries,
                      std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  policy_lifetimes(spec, n_positions, HeadIndex{}, scores, n_queries, evict_at, contests);
}

void policy_lifetimes(const PolicySpec& spec, int n_positions, const HeadIndex& head, std::span<const float> scores,
                      std::int32_t n_queries, std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  const RetentionGeometry geometry = spec.geometry(n_positions);
  const RetentionPlan plan = recorded_plan(spec, geometry, head);
  if (plan.is_pooled()) {
    throw Error({.file = "policy " + spec.name,
                 .where = "capacity",
                 .found = "pooled: what a head keeps depends on all other heads",
                 .expected = "head, or the scores of all heads"});
  }
  const bool reads_scores = plan.source != ScoreSource::none;
  if (reads_scores && !plan.is_local(head.flat())) check_scores(spec, geometry, scores.size(), n_queries);
  const RetentionGeometry of_head = plan.of_head(geometry, head.flat());
  replay(*make_rule(plan, geometry, head.flat()), reads_scores && !plan.is_local(head.flat()), scores, of_head.n_sink,
         of_head.window, n_queries, evict_at, contests);
}

void pooled_lifetimes(const PolicySpec& spec, const RecordedQueries& run, const HeadIndex& heads,
                      const HeadSeries<float>& scores, int delay, LifetimeMap& evict_at,
                      std::vector<Contest>* contests) {
  const RetentionGeometry geometry = spec.geometry(run.n_positions);
  const RetentionPlan plan = recorded_plan(spec, geometry, heads);
  if (!heads.windows.empty()) {
    throw Error({.file = "policy " + spec.name,
                 .where = "capacity",
                 .found = "pooled, for a model with local layers",
                 .expected = "capacity=head, or a run of the model under this policy"});
  }
  const int n_heads = heads.n_layers * heads.n_kv_heads;
  for (int head = 0; head < n_heads; ++head) {
    const std::size_t known = scores.empty() ? 0 : scores.row(head / heads.n_kv_heads, head % heads.n_kv_heads).size();
    check_scores(spec, geometry, known, run.n_queries);
  }
  pooled_top_k(scores, geometry_of_heads(plan, geometry, n_heads), std::min(delay, geometry.window),
               {plan.cut_interval, run.first_query}, run.n_queries, evict_at, contests);
}

}  // namespace kvscope
