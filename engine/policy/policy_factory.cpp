#include <array>

#include "engine/core/support/error.h"
#include "engine/policy/retention_policy.h"
#include "engine/scorer/kvpop_scorer.h"

namespace kvscope::engine {
namespace {

struct Maker {
  std::string_view name;  // as in policy_list()
  std::unique_ptr<RetentionPolicy> (*make)(const PolicySpec& spec, int n_positions);
};

constexpr std::array<Maker, 4> kMakers{
    {{"full", make_full}, {"streaming", make_streaming}, {"kvpop", make_kvpop}, {"threshold", make_threshold}}};

/// The score of a delayed scorer was learned for the moment at which the token leaves the window: with another window
/// it would be read from a state that it never saw.
void check_scorer(const RetentionPolicy& policy, const KvpopScorer* scorer) {
  const std::string text = policy.spec().to_string();
  if (scorer == nullptr) {
    throw Error({.file = text,
                 .found = "a model without a KVpop scorer",
                 .expected = "kvpop_scorer.json and kvpop_scorer.safetensors beside the model",
                 .hint = "full and streaming need none; kvscope train makes one"});
  }
  if (policy.geometry().window != scorer->config().delay) {
    throw Error(
        {.file = text,
         .where = "window",
         .found = std::to_string(policy.geometry().window),
         .expected = std::to_string(scorer->config().delay) + ", the delay that this model's scorer was trained with",
         .hint = "write window=" + std::to_string(scorer->config().delay)});
  }
}

}  // namespace

std::unique_ptr<RetentionPolicy> make_policy(const PolicySpec& spec, int n_positions, const KvpopScorer* scorer) {
  for (const Maker& maker : kMakers) {
    if (maker.name != spec.name) continue;
    std::unique_ptr<RetentionPolicy> policy = maker.make(spec, n_positions);
    if (policy->needs_scorer()) check_scorer(*policy, scorer);
    return policy;
  }
  throw Error({.code = ExitCode::usage, .file = spec.name, .found = "a policy that this engine does not have"});
}

}  // namespace kvscope::engine
