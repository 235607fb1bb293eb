// Gates that the person adds to the open model.

#include <algorithm>

#include "app/catalog/adapters.h"
#include "app/session/session.h"
#include "app/support/usage.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"

namespace kvscope::app {
namespace {

/// The first policy that is made for gates of this kind; full if none is.
PolicySpec policy_for(const std::string& kind) {
  for (const PolicyInfo& info : policy_list()) {
    const PolicySpec spec = PolicySpec::parse(std::string(info.name) + (info.has_budget ? ":keep=50%" : ""));
    const bool made_for = !info.gates.empty() || policy_of(spec).reads_heads(spec);
    if (made_for && reads_gate(spec, kind)) return spec;
  }
  return PolicySpec::parse("full");
}

}  // namespace

std::vector<std::string> Session::gates_beside() const {
  std::vector<std::string> paths = given_gates_;
  if (added_to_ == engine_.model_path()) paths.insert(paths.begin(), added_gates_.begin(), added_gates_.end());
  return paths;
}

void Session::add_gate(const std::string& given) {
  const std::string path = LoraFile::folder_of(given).string();
  const std::string model = engine_.model_path();
  if (model.empty()) usage_error("gate", "no model is open", "", "open its model first");
  engine_.check_idle();
  files_.in_background("gate " + path, [this, path, model]() -> Worker::Finish {
    const GateFacts facts = read_gate({gate_name(path), path, KnownGate::Origin::shipped}, model);
    const std::string note = note_of_adapter(path, model);
    return [this, facts, model, note] {
      if (model != engine_.model_path()) return;  // another one was opened meanwhile
      if (!facts.fits())
        throw Error({.file = facts.gate.name, .found = "this gate does not fit the model: " + facts.misfit});
      take_gate(facts);
      if (!note.empty())
        messages_.add_banner({.kind = Banner::Kind::warning, .text = "The adapter " + facts.gate.name + ": " + note});
    };
  });
}

void Session::take_gate(const GateFacts& facts) {
  engine_.check_idle();
  const std::string path = facts.gate.path.string(), model = engine_.model_path();
  if (added_to_ != model) added_gates_.clear(), added_to_ = model;
  std::erase(added_gates_, path);
  added_gates_.insert(added_gates_.begin(), path);
  gates_.add(facts);
  files_.remember(path);
  const bool is_read = reads_gate(parameters().policy, facts.kind);
  const auto wanted = gates_.with(facts, engine_.gates_to_load());
  if (wanted != engine_.gates_to_load()) {
    engine_.set_gates(wanted);
    engine_.load(model);
  }
  const bool changes = !is_read && facts.kind != "lora";
  if (changes) set_policy(policy_for(facts.kind));
  // While the model is loaded with it the status line says so; what is said here stays true behind that.
  messages_.notify(
      "loaded the gate " + facts.gate.name + " (" + scorer_title(facts.kind) + ")" +
      (changes ? ": the policy is now " + method_name(parameters().policy.name) + ", which uses it (Ctrl+Z to undo)"
               : ""));
}

void Session::choose_gate(const std::string& name) {
  use_gate(name);
  const GateFacts* gate = gates_.find(name);
  if (gate->kind == "lora" || reads_gate(parameters().policy, gate->kind)) return;
  set_policy(policy_for(gate->kind));
}

void Session::drop_gate(const std::string& name) {
  engine_.check_idle();
  const GateFacts* gate = gates_.find(name);
  std::vector<std::string> rest = engine_.gates_to_load();
  if (!gate || std::erase(rest, gate->gate.path.string()) == 0) {
    const bool beside = gate && gate->gate.origin == KnownGate::Origin::model && gate->adapter.empty();
    usage_error("gate", beside ? name + " belongs to the model's folder and is loaded with the model"
                               : name + " is not loaded");
  }
  // A policy that has lost its gate would take it again at once.
  if (is_used(*gate)) usage_error("gate", name + " is in use", "", "choose another policy or gate first");
  const std::string model = engine_.model_path();
  engine_.set_gates(std::move(rest));
  engine_.load(model);
  messages_.notify("unloaded the gate " + name);
}

}  // namespace kvscope::app
