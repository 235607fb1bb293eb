#pragma once
// The policy of the next run: the gate by which it decides on the open model, and what it would have kept of A.

#include <optional>
#include <string>
#include <vector>

#include "app/session/gate_probe.h"
#include "app/session/model_gates.h"
#include "app/session/next_run.h"
#include "app/session/runs.h"

namespace kvscope::app {

class PolicyChoice {
 public:
  PolicyChoice(NextRun& next_run, EngineLink& engine, Runs& runs, Preview& preview, Messages& messages,
               Revision& revision, Worker& background);
  void poll() { gate_probe_.poll(); }

  /// Asks for a preview if A was decoded under another policy.
  void set(const PolicySpec& policy);
  /// NextRun::set_budgets(), and the preview under them.
  void set_budgets(const std::string& text);
  /// What the policy will be when it runs: parameters that are not written are the loaded gates' or, without a model, A's.
  /// A policy that these cannot complete stays as it was written; the run reports why.
  PolicySpec in_effect() const { return on_model(next_run_.parameters().policy); }
  /// The same of another policy.
  PolicySpec on_model(const PolicySpec& asked) const;
  /// Whether a run was decoded under the policy, by the gate that it would decide by now.
  bool is_of(const RunRecord& run) const;
  /// The same of a policy in effect, under the budgets of the next run.
  bool is_measured_by(const RunRecord& run, const PolicySpec& policy) const;
  /// Positions that a budget refers to: prompt and answer to come. 0 while the prompt's length is not known.
  int n_positions() const;

  /// Gates that go with the open model, as far as this machine can see.
  ModelGates& gates() { return gates_; }
  const ModelGates& gates() const { return gates_; }
  const GateProbe& gate_probe() const { return gate_probe_; }
  /// The gate by which the policy decides; nullptr if it reads none, or none that was found.
  const GateFacts* gate() const;
  bool is_used(const GateFacts& facts) const { return gate() == &facts; }
  /// Has policies decide by the gate of that name before any other of its kind: the model is loaded again unless the
  /// engine has it in that place. Throws Error (usage) for a name that is not there, or while a run is in progress.
  void use_gate(const std::string& name);
  /// Those that a run under the policy is made with.
  std::vector<GateRef> gates_of(const PolicySpec& policy) const;

  /// A model is loaded: the policy becomes one that it has a gate for, and a preview that waited for its gates is asked for.
  void take_model();
  /// An engine has greeted. A policy that nobody chose gives way to its default one; a text that names one of its policies means
  /// that one from now on.
  void take_offer();
  /// The policy that was chosen before fit() put another in its place, which is then forgotten; else the present one.
  PolicySpec take_wanted();

  /// Unless A or B was decoded under the policy. Scores that A did not record are asked of the engine's gates first.
  void request_preview();
  void clear_preview();
  /// Of the last session, which had it in B's place: once the engine has the model, if it has none yet.
  void put_back_preview();

 private:
  /// Of the gate that would decide now, on this run's model; empty: not known, or the model's own.
  std::string gate_name_for(const RunRecord& run) const;
  /// Once a model is there and its gates are known: a policy that reads a gate becomes one that needs none, where there is none.
  void fit();
  /// A policy that reads a gate which is found and not loaded has the first of them loaded.
  void load_missing_gate();

  NextRun& next_run_;
  EngineLink& engine_;
  Runs& runs_;
  Preview& preview_;
  Messages& messages_;
  ModelGates gates_;
  GateProbe gate_probe_;
  std::optional<PolicySpec> wanted_;  // the model has no gate for it: ...
  PolicySpec taken_;                  // ... in its place
};

}  // namespace kvscope::app
