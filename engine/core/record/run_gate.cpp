#include "engine/core/record/run_gate.h"

#include "engine/core/policy/policy.h"

namespace kvscope {

std::string gate_of(const RunRecord& run) {
  if (run.scorer.kind.empty()) return "";  // the text says what the model has
  const PolicyInfo* info = find_policy(run.policy);
  // A preview without scores has those of its run all the same.
  if (info == nullptr || policy_of(run.policy).plan(run.policy, {}).source != ScoreSource::gate) return "";
  return run.scorer.gate;
}

}  // namespace kvscope
