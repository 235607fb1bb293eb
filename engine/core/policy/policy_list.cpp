// The list of policies. A new one is a file with its rule, a declaration in policy.h and a line here.
#include <vector>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

const std::vector<const Policy*>& policies() {
  static const std::vector<const Policy*> list{&full_policy(), &streaming_policy(), &kvpop_policy(),
                                               &threshold_policy()};
  return list;
}

}  // namespace

std::span<const PolicyInfo> policy_list() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> result;
    for (const Policy* policy : policies()) result.push_back(policy->info);
    return result;
  }();
  return infos;
}

const PolicyInfo* find_policy(std::string_view name) {
  for (const PolicyInfo& info : policy_list()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const Policy& policy_of(const PolicySpec& spec) {
  std::string names;
  for (const Policy* policy : policies()) {
    if (policy->info.name == spec.name) return *policy;
    names += (names.empty() ? "" : ", ") + std::string(policy->info.name);
  }
  throw Error({.code = ExitCode::usage,
               .file = "policy",
               .found = "no policy is named \"" + escape_for_terminal(spec.name) + "\"",
               .expected = "one of " + names});
}

void policy_lifetimes(const PolicySpec& spec, int n_positions, std::span<const float> scores, std::int32_t n_queries,
                      std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  const Policy& policy = policy_of(spec);
  const RetentionGeometry geometry = policy.geometry(spec, n_positions);
  const std::int32_t n_needed = n_queries - geometry.window;  // scores 0 ... n_needed - 1 are read
  if (policy.info.needs_scorer && n_needed > geometry.n_sink && scores.size() < static_cast<std::size_t>(n_needed)) {
    throw Error({.file = "policy " + spec.name,
                 .where = "scores",
                 .found = std::to_string(scores.size()) + " scores",
                 .expected = std::to_string(n_needed) + ", one for each token that has left the window",
                 .hint = "record a run with a scorer beside the model"});
  }
  replay(*policy.rule(spec, geometry), policy.info.needs_scorer, scores, geometry.n_sink, geometry.window, n_queries,
         evict_at, contests);
}

}  // namespace kvscope
