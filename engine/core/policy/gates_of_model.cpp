#include "engine/core/policy/gates_of_model.h"

#include <algorithm>
#include <iterator>

namespace kvscope {

const GateOfModel* GatesOfModel::scorer(std::span<const std::string_view> kinds) const {
  const auto found = std::ranges::find_if(
      scorers, [&](const GateOfModel& gate) { return kinds.empty() || std::ranges::count(kinds, gate.kind) > 0; });
  return found == scorers.end() ? nullptr : &*found;
}

namespace {

/// `spec`: with its own share.
GatesOfPolicy gates_read(const PolicySpec& spec, const GatesOfModel& gates) {
  const Policy& policy = policy_of(spec);
  GatesOfPolicy read;
  // Which score it reads says the plan, whose other numbers are of no interest yet.
  if (policy.plan(spec, {}).source == ScoreSource::gate) {
    const GateOfModel* gate = gates.scorer(policy.info.gates);
    if (gate != nullptr && gate->numbers) read.scorer = &*gate->numbers;
  }
  if (gates.heads && policy.reads_heads(spec)) read.heads = &*gates.heads;
  return read;
}

}  // namespace

PolicySpec policy_on(const PolicySpec& asked, const HeadsOfModel& shape, const GatesOfModel& gates) {
  const Policy& policy = policy_of(asked);
  const PolicySpec spec = policy.with_own_share != nullptr ? policy.with_own_share(asked, shape) : asked;
  return with_gates(spec, gates_read(spec, gates));
}

std::optional<double> own_number(const PolicySpec& asked, std::string_view parameter, const GatesOfModel& gates) {
  if (!asked.has(parameter) || asked.unwritten.contains(parameter)) return std::nullopt;
  const GatesOfPolicy read = gates_read(asked, gates);
  GateDefaults defaults;  // of the heads go before the scorer's
  if (read.heads != nullptr) defaults = defaults_of_heads(*read.heads);
  if (read.scorer != nullptr) std::ranges::copy(policy_of(asked).of_scorer(*read.scorer), std::back_inserter(defaults));
  const auto own = std::ranges::find_if(defaults, [&](const auto& one) { return one.first == parameter; });
  return own == defaults.end() ? std::nullopt : std::optional(own->second);
}

PolicySpec policy_after(const PolicySpec& asked, const PolicySpec& of_run) {
  PolicySpec spec = asked;
  if (asked.name == of_run.name && asked.declared == of_run.declared) {
    for (const ParameterInfo& parameter : policy_of(asked).info.parameters) {
      const std::string_view other = parameter.instead_of;
      if (!asked.is_open(parameter.name) || (!other.empty() && !asked.is_open(other))) continue;
      spec.values[std::string(parameter.name)] = of_run.value(parameter.name);
    }
  }
  spec.forget_replaced();
  return spec.closed();
}

}  // namespace kvscope
