#pragma once
// The rule of each head of a model under a policy.

#include <cstdint>
#include <span>

#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// What is known of a model's heads when a policy begins on them, each [n_layers * n_kv_heads] or empty, windows apart.
struct KnownHeads {
  int n_layers = 0, n_kv_heads = 0;
  std::span<const float> alpha = {};           // of a head directory
  std::span<const float> log_gamma = {};       // of a gate
  std::span<const float> thresholds = {};      // solved for a density, or given
  std::span<const std::int32_t> budgets = {};  // solved by scores, or given: sinks and window included
  std::span<const std::int32_t> windows = {};  // [n_layers] of the model's own windows, 0: a global layer; ModelConfig
  int n_heads() const { return n_layers * n_kv_heads; }
};

/// Of a policy's plan on these heads; empty where all heads are alike. Throws std::invalid_argument for a policy that wants
/// alpha where there is none, Error where a decay, a density's thresholds or an allocation's budgets are not known, or a
/// budget is less than sinks and window.
HeadRules head_rules(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                     const KnownHeads& heads);

}  // namespace kvscope
