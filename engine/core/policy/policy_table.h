#pragma once
// The documentation's table of policies, made from their declarations.

#include <string>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// A value of a parameter as people write it, and what it may be: "0 to 1", "dense, sparse".
std::string parameter_value(const ParameterInfo& parameter, double value);
std::string parameter_range(const ParameterInfo& parameter);

/// What it reads and how it treats the prompt, in a sentence each; empty if there is nothing to say.
std::string policy_notes(const PolicyInfo& info);

/// docs/policies.md, whole: a section for each policy with its definition and a table of its parameters. A test
/// compares the file with this.
std::string policy_document();

}  // namespace kvscope
