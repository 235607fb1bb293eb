#pragma once
// Policies for programs that do not read their text, and the documentation's table of them.

#include <nlohmann/json_fwd.hpp>
#include <string>

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

/// What a parameter may be: "0 to 1", "dense, sparse".
std::string parameter_range(const ParameterInfo& parameter);

/// What it reads and how it treats the prompt, in a sentence each; empty if there is nothing to say.
std::string policy_notes(const PolicyInfo& info);

/// docs/policies.md, whole: a section for each policy with its definition and a table of its parameters. A test
/// compares the file with this.
std::string policy_document();

}  // namespace kvscope
