#include "engine/core/policy/policy_table.h"

#include <string_view>

#include "engine/core/policy/policy.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

/// A bar would end a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string needs(const PolicyInfo& info) {
  if (info.gates.empty()) return info.needs_scorer ? "Reads the first loaded gate of any kind. " : "";
  std::string kinds;
  for (const std::string_view gate : info.gates) kinds += (kinds.empty() ? "" : ", ") + std::string(gate);
  return "Reads a gate of kind " + kinds + " (docs/gates.md). ";
}

std::string prefill(const PolicyInfo& info) {
  const PolicySpec spec = PolicySpec::parse(info.name);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(4096));
  if (plan.keeps_everything()) return "";
  return plan.dense_prefill ? "The prompt is dense unless told otherwise: eviction begins after it."
                            : "The prompt is sparse: its queries see what the policy keeps.";
}

}  // namespace

std::string parameter_value(const ParameterInfo& parameter, double value) {
  return parameter.kind == ParameterKind::choice ? std::string(parameter.choices[static_cast<std::size_t>(value)])
                                                 : number_text(value);
}

std::string parameter_range(const ParameterInfo& parameter) {
  if (parameter.kind != ParameterKind::choice) return number_text(parameter.min) + " to " + number_text(parameter.max);
  std::string names;
  for (const std::string_view choice : parameter.choices) names += (names.empty() ? "" : ", ") + std::string(choice);
  return names;
}

std::string policy_notes(const PolicyInfo& info) { return needs(info) + prefill(info); }

std::string policy_document() {
  std::string out =
      "# Policies\n\nMade from the declarations in `engine/core/policy/`; `core_tests \"docs/policies.md*\"` compares, and "
      "with KVSCOPE_WRITE_DOCS=1 in the environment writes it.\n\nA policy is written `NAME:key=value,...`; a budget also "
      "as `keep=25%` or `compression=4x`. Lifetimes: `evict_at[t]` is the first query that can no longer see token "
      "t.\n";
  for (const PolicyInfo& info : policy_list()) {
    out += "\n## `" + std::string(info.name) + "`: " + std::string(info.title) + "\n\n" + std::string(info.definition) +
           "\n\n";
    if (const std::string notes = policy_notes(info); !notes.empty()) out += notes + "\n\n";
    if (info.parameters.empty()) continue;
    out += "| parameter | default | range | unit | meaning |\n|---|---|---|---|---|\n";
    for (const ParameterInfo& parameter : info.parameters) {
      out += "| `" + std::string(parameter.name) + "` | " + parameter_value(parameter, parameter.default_value) +
             " | " + parameter_range(parameter) + " | " + std::string(parameter.unit) + " | " +
             cell(parameter.definition) + " |\n";
    }
  }
  return out;
}

}  // namespace kvscope
