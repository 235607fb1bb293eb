// kvscope policies: what there is, and everything that one of them declares of itself.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/support/closest.h"
#include "engine/core/policy/policy_table.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr OptionSpec kPoliciesOptions[] = {kEngineOption, {"json", "", "one object per policy"}};

ordered_json to_json(const ParameterInfo& parameter) {
  const bool is_choice = parameter.kind == ParameterKind::choice;
  ordered_json json = {{"name", parameter.name}, {"unit", parameter.unit}, {"definition", parameter.definition}};
  if (is_choice) {
    json["default"] = parameter_value(parameter, parameter.default_value);
    json["choices"] = std::vector(parameter.choices.begin(), parameter.choices.end());
  } else {
    json["default"] = parameter.default_value;
    json["min"] = parameter.min;
    json["max"] = parameter.max;
  }
  return json;
}

ordered_json to_json(const PolicyInfo& policy) {
  ordered_json parameters = ordered_json::array();
  for (const ParameterInfo& parameter : policy.parameters) parameters.push_back(to_json(parameter));
  return {{"name", policy.name},
          {"title", policy.title},
          {"definition", policy.definition},
          {"has_budget", policy.has_budget},
          {"needs_scorer", policy.needs_scorer},
          {"gates", std::vector(policy.gates.begin(), policy.gates.end())},
          {"parameters", std::move(parameters)}};
}

std::string line_of(const PolicyInfo& policy) {
  std::string left = "  " + std::string(policy.name);
  left.resize(std::max<std::size_t>(left.size() + 1, 22), ' ');
  return left + std::string(policy.title) + (policy.needs_scorer ? " (reads a gate)" : "") + "\n";
}

std::string page_of(const PolicyInfo& policy) {
  std::string text = std::string(policy.name) + ": " + std::string(policy.title) + "\n\n" + wrapped(policy.definition);
  if (const std::string notes = policy_notes(policy); !notes.empty()) text += wrapped(notes);
  if (policy.parameters.empty()) return text;
  text += "\nparameters:\n";
  for (const ParameterInfo& parameter : policy.parameters) {
    std::string left = "  " + std::string(parameter.name) + "=" + parameter_value(parameter, parameter.default_value);
    left.resize(std::max<std::size_t>(left.size() + 1, 18), ' ');
    text += wrapped(left + std::string(parameter.definition) + " (" + parameter_range(parameter) + ")", 18);
  }
  return text;
}

/// What there is: KVScope's own, or with an engine those that it runs, its own last.
std::vector<const PolicyInfo*> offered(const protocol::EngineOffer& offer) {
  std::vector<const PolicyInfo*> list;
  for (const PolicyInfo& policy : policy_list())
    if (offer.runs(policy)) list.push_back(&policy);
  for (const DeclaredPolicy* policy : offer.policies) list.push_back(&policy->policy.info);
  return list;
}

const PolicyInfo* named(const std::vector<const PolicyInfo*>& list, const std::string& name) {
  std::vector<std::string_view> names;
  for (const PolicyInfo* policy : list) {
    if (policy->name == name) return policy;
    names.push_back(policy->name);
  }
  const std::string close = closest(name, names);
  const std::string hint = is_declared_name(name) && close.empty()
                               ? "kvscope policies --engine COMMAND lists those of an engine"
                               : "kvscope policies lists them";
  usage_error("kvscope policies", "no policy named " + in_quotes(name), "",
              close.empty() ? hint : "did you mean " + close + "?");
}

int policies(const Arguments& arguments) {
  const bool is_one = !arguments.positionals().empty();
  std::optional<EngineJob> job;
  if (arguments.has("engine")) job.emplace(engine_options(arguments));
  const protocol::EngineOffer offer = job ? job->offer() : protocol::EngineOffer();
  std::vector<const PolicyInfo*> shown = offered(offer);
  if (is_one) shown = {named(shown, arguments.positionals()[0])};
  bool is_first = true;
  for (const PolicyInfo* policy : shown) {
    const bool is_declared = is_declared_name(policy->name);
    if (arguments.has("json")) {
      ordered_json json = to_json(*policy);
      if (is_declared) json["engine"] = offer.name;
      write_json_line(json);
      continue;
    }
    if (!is_one && is_declared && std::exchange(is_first, false)) {
      const std::string by = offer.name.empty() ? "the engine" : escape_for_terminal(offer.name);
      std::fputs(("\n" + wrapped("declared by " + by + ":")).c_str(), stdout);
    }
    std::fputs((is_one ? page_of(*policy) : line_of(*policy)).c_str(), stdout);
  }
  return 0;
}

}  // namespace

extern const CommandSpec policies_command = {
    "policies",
    "[POLICY] [--engine COMMAND] [--json]",
    "list the policies, or describe one",
    "A policy is written NAME:key=value,key=value, for example kvpop:budget=512,window=64. A budget is a number of "
    "tokens (budget=512), a kept share (keep=25%) or a factor (compression=4x). With POLICY: prints its rule, the gate "
    "it needs, and its parameters with defaults and ranges. With --engine: the policies that this engine runs, also those "
    "that it declares.",
    "  kvscope policies kvpop",
    {0, 1},
    kPoliciesOptions,
    policies};

}  // namespace kvscope::app
