#include "app/catalog/gate_summary.h"

#include <algorithm>
#include <cstdio>

#include "app/catalog/gates.h"
#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostOfLine = 400;  // a reason with its hint

bool chooses_heads(const GateFile& gate) { return info_of(gate.config.kind).reads == GateReads::nothing; }

GateNumbers numbers_of(const GateFile& gate) {
  GateNumbers numbers = gate_numbers(gate.config);
  numbers.has_decay = gate.tensors.contains("log_gamma");
  if (chooses_heads(gate)) numbers.share = share_passing(gate.tensors.at("alpha").values, numbers);
  return numbers;
}

/// "threshold=0.9,window=128": what the gate says of a policy's parameters, or why the policy refuses it.
std::string defaults_text(const PolicySpec& spec, const GatesOfPolicy& gates) {
  PolicySpec with;
  try {
    with = with_gates(spec, gates);
  } catch (const Error& error) {
    return error.what();
  }
  const GateDefaults defaults =
      gates.heads != nullptr ? defaults_of_heads(*gates.heads) : policy_of(spec).of_scorer(*gates.scorer);
  std::string text;
  for (const ParameterInfo& parameter : policy_of(spec).info.parameters) {
    const bool is_set =
        std::any_of(defaults.begin(), defaults.end(), [&](const auto& one) { return one.first == parameter.name; });
    if (!is_set) continue;
    text += (text.empty() ? "" : ",") + std::string(parameter.name) + "=" +
            parameter_value(parameter, with.value(parameter.name));
  }
  return text;
}

ordered_json policy_defaults(const GateFile& gate) {
  const GateNumbers numbers = numbers_of(gate);
  ordered_json result = ordered_json::object();
  for (const PolicyInfo& info : policy_list()) {
    const PolicySpec spec = PolicySpec::parse(info.name);
    if (!reads_gate(spec, name_of(gate.config.kind))) continue;
    const bool is_heads = chooses_heads(gate);
    result[std::string(info.name)] =
        defaults_text(spec, is_heads ? GatesOfPolicy{.heads = &numbers} : GatesOfPolicy{.scorer = &numbers});
  }
  return result;
}

}  // namespace

ordered_json gate_summary(const GateFile& gate) {
  const GateConfig& config = gate.config;
  ordered_json result = {{"kind", "gate"},
                         {"gate", name_of(config.kind)},
                         {"format", gate.format},
                         {"description", gate.description},
                         {"parameters", gate.n_parameters()},
                         {"threshold", config.threshold},
                         {"kept_if", config.strict ? "score > threshold" : "score >= threshold"},
                         {"window", config.window},
                         {"sinks", config.n_sink},
                         {"delay", config.delay},
                         {"policy_defaults", policy_defaults(gate)},
                         {"hash", gate.hash}};
  const GateDims& dims = gate.dims;
  if (dims.n_layers > 0) result["layers"] = dims.n_layers;
  if (dims.n_kv_heads > 0) result["kv_heads"] = dims.n_kv_heads;
  if (dims.head_dim > 0) result["head_dim"] = dims.head_dim;
  if (dims.hidden_size > 0) result["hidden_size"] = dims.hidden_size;
  if (config.n_hidden > 0) result["hidden_units"] = config.n_hidden;
  if (config.kernel > 1) result["kernel"] = config.kernel;
  result["shapes"] = ordered_json::object();
  for (const auto& [name, tensor] : gate.tensors) result["shapes"][name] = tensor.shape;
  if (!gate.warnings.empty()) result["warnings"] = gate.warnings;
  return result;
}

}  // namespace kvscope::app
