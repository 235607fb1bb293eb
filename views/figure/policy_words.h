#pragma once
// A policy for people: its title and what each of its parameters is set to, in the words of the window's controls.

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/policy/policy_text.h"

namespace kvscope::views {

/// "Recent window" of window. One that has no words of its own speaks for itself: "Sinks".
std::string parameter_title(std::string_view name);

struct ParameterLine {
  std::string name;   // "window"
  std::string title;  // "Recent window"
  std::string value;  // "16 tokens"
};
/// Those that the policy's text has, in its order (PolicySpec::to_string()).
std::vector<ParameterLine> parameter_lines(const PolicySpec& policy);

}  // namespace kvscope::views
