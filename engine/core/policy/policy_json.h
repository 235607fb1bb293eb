#pragma once
// A policy for programs that do not read its text.

#include <nlohmann/json_fwd.hpp>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// For a run of n_positions (prompt + new tokens at most):
///
///     {"name": "kvpop", "parameters": {"sinks": 4, "prefill": "dense", ...},
///      "budget": {"tokens": 512, "kept_fraction": 0.25, "compression_factor": 4},
///      "geometry": {"n_sink": 4, "window": 64, "top_k": 444}}
///
/// budget is null for a policy without one, its ratios for n_positions or tokens of 0; geometry is null where the
/// policy has none, as its budget is smaller than its window.
nlohmann::ordered_json policy_json(const PolicySpec& spec, int n_positions);

}  // namespace kvscope
