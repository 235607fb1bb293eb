// Session: the parameters' policy, and what it would have kept of A.

#include <stdexcept>
#include <utility>

#include "app/session/session.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/what_if.h"

namespace kvscope::app {

void Session::set_policy(const PolicySpec& policy) {
  // A number that was written is another wish than the same one left open: a gate's own would take its place.
  if (policy == parameters().policy && policy.unwritten == parameters().policy.unwritten) return;
  next_run_.set_policy(policy);
  load_missing_gate();
  request_preview();
}

PolicySpec Session::policy_in_effect() const { return policy_on_model(parameters().policy); }

PolicySpec Session::policy_on_model(const PolicySpec& asked) const {
  try {
    if (const auto& model = engine_.model())
      return policy_on(asked, {model->n_layers, model->n_kv_heads, {}}, engine_.gates());
  } catch (const Error&) {
    return asked;
  }
  return a() ? policy_after(asked, a()->run->policy) : asked;
}

void Session::set_budgets(const std::string& text) {
  next_run_.set_budgets(text);
  request_preview();
}

bool Session::is_measured_by(const RunRecord& run, const PolicySpec& policy) const {
  if (run.policy != policy) return false;
  const std::vector<std::int32_t> given = next_run_.budgets();
  const bool divides = policy.has("allocation") && policy.value("allocation") != 0;
  if (!divides && run.budgets() != given) return false;
  const std::string of_run = gate_of(run), now = gate_name_for(run);
  return of_run.empty() || now.empty() || of_run == now;
}

bool Session::has_parameters_policy(const RunRecord& run) const {
  // A share that is less than sinks and window take was raised when the run began.
  const PolicySpec policy = with_least_budget(policy_in_effect(), run.n_positions);
  if (!is_measured_by(run, policy)) return false;
  const auto local_heads = policy_of(policy).local_heads;
  const GateFacts* gate = used_gate();
  if (local_heads == nullptr || run.local_heads().empty() || !gate || gate->alpha.empty()) return true;
  try {  // another head directory makes it another policy
    return local_heads(policy, {run.model.n_layers, run.model.n_kv_heads, gate->alpha}) == run.local_heads();
  } catch (const std::invalid_argument&) {  // of another model
    return true;
  }
}

std::string Session::gate_name_for(const RunRecord& run) const {
  const GateFacts* gate = used_gate();
  if (!gate || !engine_.model() || engine_.model()->weights_hash != run.model.weights_hash) return "";
  return gate->gate.path != engine_.model_path() ? gate_name(gate->gate.path) : "";
}

void Session::clear_preview() {
  gate_probe_.forget();
  preview_.clear();
  update_shown();
}

void Session::request_preview() {
  clear_preview();
  const RunEntry *first = a(), *second = b();
  if (!first || first->run->n_tokens() == 0) return;
  const PolicySpec policy = with_least_budget(policy_in_effect(), first->run->n_positions);
  if (is_measured_by(*first->run, policy)) return;
  if (second && is_measured_by(*second->run, policy)) return;  // no need to guess
  const GateOfModel* scorer = engine_.gates().scorer(policy_of(policy).info.gates);
  if (!lacks_scores(*first->run, policy, scorer ? scorer->kind : "", gate_name_for(*first->run)))
    return preview_.request(first->run, policy, nullptr, next_run_.budgets());
  auto gates = gate_probe_.look(first->run);
  if (gate_probe_.pending()) return preview_.wait();
  preview_.request(first->run, policy, std::move(gates), next_run_.budgets());
}

void Session::put_back_preview() {
  request_preview();
  if (!engine_.model()) preview_due_ = true;
}

}  // namespace kvscope::app
