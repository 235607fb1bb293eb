#include "engine/core/policy/policy_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

using nlohmann::ordered_json;

ordered_json value_json(const ParameterInfo& parameter, double value) {
  if (parameter.kind == ParameterKind::choice) return parameter.choices[static_cast<std::size_t>(value)];
  if (parameter.kind == ParameterKind::real) return value;
  return static_cast<std::int64_t>(value);
}

ordered_json budget_json(int tokens, int n_positions) {
  if (tokens <= 0 || n_positions <= 0)
    return {{"tokens", tokens}, {"kept_fraction", nullptr}, {"compression_factor", nullptr}};
  const double n = n_positions;
  return {{"tokens", tokens}, {"kept_fraction", tokens / n}, {"compression_factor", n / tokens}};
}

ordered_json geometry_json(const PolicySpec& spec, int n_positions) {
  try {
    const RetentionGeometry geometry = spec.geometry(n_positions);
    return {{"n_sink", geometry.n_sink}, {"window", geometry.window}, {"top_k", geometry.top_k}};
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

ordered_json policy_json(const PolicySpec& spec, int n_positions) {
  ordered_json parameters = ordered_json::object();
  for (const ParameterInfo& parameter : policy_of(spec).info.parameters) {
    if (spec.budget && parameter.name == "budget") continue;
    parameters[std::string(parameter.name)] = value_json(parameter, spec.value(parameter.name));
  }
  const int tokens = spec.budget_tokens(n_positions);
  const bool has_budget = policy_of(spec).info.has_budget || tokens > 0;
  return {{"name", spec.name},
          {"parameters", std::move(parameters)},
          {"budget", has_budget ? budget_json(tokens, n_positions) : ordered_json()},
          {"geometry", geometry_json(spec, n_positions)}};
}

}  // namespace kvscope
