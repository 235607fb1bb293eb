// kvscope gates: the gates that go with a model, by the names that --gate takes.

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "app/catalog/adapters.h"
#include "app/catalog/gates.h"
#include "app/catalog/models.h"
#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr OptionSpec kGatesOptions[] = {{"json", "", "one object per gate"}};

/// Policies that were made for gates of this kind: `threshold` and `top-k` read any.
std::vector<std::string> policies_for(const std::string& kind) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policy_list()) {
    if (!info.gates.empty() && reads_gate(PolicySpec::parse(info.name), kind)) names.emplace_back(info.name);
  }
  return names;
}

const char* origin_of(const KnownGate& gate) {
  using Origin = KnownGate::Origin;
  return gate.origin == Origin::model ? "model" : gate.origin == Origin::shipped ? "shipped" : "builtin";
}

ordered_json to_json(const GateFacts& facts) {
  return {{"name", facts.gate.name},
          {"path", facts.gate.path.string()},
          {"origin", origin_of(facts.gate)},
          {"kind", facts.kind.empty() ? ordered_json() : ordered_json(facts.kind)},
          {"policies", facts.kind.empty() ? std::vector<std::string>() : policies_for(facts.kind)},
          {"kept_if_score", facts.decision},
          {"description", facts.description.empty() ? ordered_json() : ordered_json(facts.description)},
          {"adapter", facts.adapter.empty() ? ordered_json() : ordered_json(facts.adapter)},
          {"bytes", facts.bytes},
          {"fits", facts.fits()},
          {"reason", facts.fits() ? ordered_json() : ordered_json(facts.misfit)}};
}

std::vector<std::string> gate_row(const ordered_json& gate) {
  std::string policies;
  for (const auto& name : gate["policies"]) policies.append(policies.empty() ? "" : ", ").append(name);
  return {escape_for_terminal(gate["name"].get<std::string>()),
          gate["kind"].is_null() ? "cannot be read"
                                 : gate["kind"].get<std::string>() + (gate["adapter"].is_null() ? "" : " + weights"),
          policies,
          gate["kept_if_score"].get<std::string>(),
          fixed_text(gate["bytes"].get<double>() / 1e6, 1) + " MB",
          gate["fits"].get<bool>() ? "yes" : "no",
          escape_for_terminal(gate["path"].get<std::string>())};
}

int gates(const Arguments& arguments) {
  const std::string folder = model_folder(arguments.positionals()[0]);
  std::vector<std::vector<std::string>> rows = {{"name", "kind", "policy", "kept if score", "size", "fits", "file"}};
  std::string notes;
  std::vector<KnownGate> all = known_gates(folder);
  const bool has_trained = !all.empty();
  std::ranges::copy(builtin_gates(), std::back_inserter(all));
  for (const KnownGate& gate : all) {
    ordered_json json = to_json(read_gate(gate, folder));
    const std::string note = note_of_adapter(gate.path, folder);
    json["note"] = note.empty() ? ordered_json() : ordered_json(note);
    if (arguments.has("json")) {
      write_json_line(json);
      continue;
    }
    rows.push_back(gate_row(json));
    for (const char* key : {"description", "reason", "note"}) {
      if (!json[key].is_null())
        notes += escape_for_terminal(json["name"].get<std::string>()) + ": " + json[key].get<std::string>() + "\n";
    }
  }
  if (arguments.has("json")) return 0;
  std::fputs(format_table(rows).c_str(), stdout);
  if (!has_trained)
    notes +=
        "No trained gate for " + escape_for_terminal(folder) +
        ": none in its gates/ folder, none shipped with KVScope. See docs/how-to/train-a-gate.md for training one.\n";
  std::fputs(notes.c_str(), stdout);
  return 0;
}

}  // namespace

extern const CommandSpec gates_command = {
    "gates",
    "MODEL [--json]",
    "list the gates for a model",
    "Lists the gates in the model's folder and in its gates/ folder, and those shipped with KVScope for a model of "
    "this name (samples/gates/NAME), then the scores that need no training. --gate accepts these names. A policy that "
    "needs a gate uses the first trained one that fits.",
    "  kvscope gates smollm2-135m\n"
    "  kvscope run kvscope-tiny --prompt 'Numbers:' --gate kvpop-scorer --policy kvpop",
    {1, 1},
    kGatesOptions,
    gates};

}  // namespace kvscope::app
