// The methods by name. A new one is a file with its class, a declaration and a line here.
#include <stdexcept>
#include <string>

#include "engine/decode/eviction/sequence_state.h"

namespace kvscope::engine {

using Method = std::unique_ptr<AttentionMethod>;
Method make_tova(SequenceState& state);
Method make_h2o(SequenceState& state);
Method make_snapkv(SequenceState& state);
Method make_expected_attention(SequenceState& state);
Method make_pool(SequenceState& state);
Method make_pooled_budget(SequenceState& state);
Method make_page_selection(SequenceState& state);
Method make_threshold_cut(SequenceState& state);

namespace {

struct Entry {
  std::string_view name;  // RetentionPlan::eviction
  Method (*make)(SequenceState& state);
};
constexpr Entry kMethods[] = {{"tova", make_tova},     {"h2o", make_h2o},
                              {"snapkv", make_snapkv}, {"expected-attention", make_expected_attention},
                              {"pool", make_pool},     {"pooled-budget", make_pooled_budget}};

Method make_eviction(SequenceState& state, std::string_view name) {
  for (const Entry& entry : kMethods) {
    if (entry.name == name) return entry.make(state);
  }
  throw std::logic_error("no eviction method named " + std::string(name));
}

}  // namespace

std::vector<Method> make_methods(SequenceState& state) {
  const RetentionPlan& plan = state.policy.plan();
  std::vector<Method> methods;
  if (plan.cuts_after_prompt()) methods.push_back(make_threshold_cut(state));
  if (!plan.eviction.empty()) methods.push_back(make_eviction(state, plan.eviction));
  // Last: what is read is chosen among what the eviction has left.
  if (plan.selection.tokens > 0) methods.push_back(make_page_selection(state));
  return methods;
}

}  // namespace kvscope::engine
