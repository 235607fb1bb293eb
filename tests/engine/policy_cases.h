#pragma once
// Every policy in every way that it is used, and a small model that has gates for all of them.

#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/policy/policy.h"
#include "engine/scorer/loaded_model.h"
#include "tests/engine/small_model.h"

namespace kvscope::test {

/// One row a policy and way of it. `dense`: the same policy so generous that nothing leaves and all is read.
struct PolicyCase {
  std::string policy, dense;
};

/// A policy that has no row: as it is declared, with a budget and a window for runs of about 140 tokens.
PolicyCase of_declaration(const PolicyInfo& info);
/// For runs of about 140 tokens. A policy that is declared and has no row of its own is there too.
const std::vector<PolicyCase>& policy_cases();

std::vector<GateFile> gates_of_every_kind(const ModelConfig& model = small_config());
/// gated_model() of these, loaded once.
const engine::LoadedModel& model_of_every_policy();
/// The same with a window of kLocalWindow in layer 0, as a model's own design has it.
constexpr int kLocalWindow = 24;
const engine::LoadedModel& local_model_of_every_policy();

/// small_config() as a model of that family: with what only its layers have, such as a window of kLocalWindow in layer 0.
ModelConfig family_config(const ModelFamily& family);
/// gated_model() of that, loaded once.
const engine::LoadedModel& family_model_of_every_policy(const ModelFamily& family);
/// Gemma 3 with the heads that it has: of 256 channels, four query heads and one KV head.
ModelConfig wide_config();
/// One of the families after the other.
const ModelFamily& some_family();

}  // namespace kvscope::test
