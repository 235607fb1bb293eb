#include "app/session/policy_choice.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/support/usage.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

// A head directory is read by hybrids alone; the board's are on no other machine.
static bool is_head_directory(const std::string& path) {
  return gate_format(path) == std::optional<std::string>("duo");
}

PolicyChoice::PolicyChoice(NextRun& next_run, EngineLink& engine, Runs& runs, Preview& preview, Messages& messages,
                           Revision& revision, Worker& background)
    : next_run_(next_run),
      engine_(engine),
      runs_(runs),
      preview_(preview),
      messages_(messages),
      gates_(revision, background, [this] { fit(); }),
      gate_probe_(engine, [this] { request_preview(); }) {}

void PolicyChoice::use_gate(const std::string& name) {
  const GateFacts* found = gates_.find(name);
  if (!found) {
    std::string names;
    for (const GateFacts& one : gates_.found()) names.append(names.empty() ? "" : ", ").append(one.gate.name);
    usage_error("gate", in_quotes(name), names.empty() ? "a gate of this model, but it has none" : names);
  }
  if (!found->fits()) usage_error("gate", name + " does not fit: " + found->misfit);
  if (gate() == found) return;
  if (engine_.reload_with(gates_.with(*found, engine_.gates_to_load()))) preview_.set_due(true);
}

const GateFacts* PolicyChoice::gate() const {
  return gates_.used_by(next_run_.parameters().policy, engine_.gates_to_load());
}

std::vector<GateRef> PolicyChoice::gates_of(const PolicySpec& policy) const {
  std::vector<GateRef> gates;
  for (const std::string& path : engine_.gates_to_load()) {
    const auto& found = gates_.found();
    const auto facts = std::ranges::find_if(found, [&](const GateFacts& gate) { return gate.gate.path == path; });
    // One that changes the weights counts under every policy; what another machine has is not known here.
    const bool counts = facts == found.end()
                            ? !is_head_directory(path) || policy_of(policy).reads_heads(policy)
                            : facts->is_adapter_alone() || !facts->adapter.empty() || reads_gate(policy, facts->kind);
    if (!counts) continue;
    gates.push_back({.given = gate_in_files(path)});
    if (facts != found.end()) gates.back().name = facts->gate.name, gates.back().hash = facts->hash;
  }
  // One beside the model's weights is read in any case: no command names it.
  const GateFacts* used = gates_.used_by(policy, engine_.gates_to_load());
  if (used != nullptr && std::ranges::count(gates, used->gate.name, &GateRef::name) == 0)
    gates.push_back({.given = "", .name = used->gate.name, .hash = used->hash});
  return gates;
}

int PolicyChoice::n_positions() const {
  const RunEntry* first = runs_.a();
  const bool of_a =
      first && first->run->n_positions > 0 &&
      (!engine_.model() || first->run->prompt_text == next_run_.asked());  // without a model A is all there is
  return of_a ? first->run->n_positions : next_run_.n_positions();
}

void PolicyChoice::set(const PolicySpec& policy) {
  // A number that was written is another wish than the same one left open: a gate's own would take its place.
  if (policy == next_run_.parameters().policy && policy.unwritten == next_run_.parameters().policy.unwritten) return;
  next_run_.set_policy(policy);
  load_missing_gate();
  request_preview();
}

PolicySpec PolicyChoice::on_model(const PolicySpec& asked) const {
  try {
    if (const auto& model = engine_.model())
      return policy_on(asked, {model->n_layers, model->n_kv_heads, {}}, engine_.gates());
  } catch (const Error&) {
    return asked;
  }
  return runs_.a() ? policy_after(asked, runs_.a()->run->policy) : asked;
}

void PolicyChoice::set_budgets(const std::string& text) {
  next_run_.set_budgets(text);
  request_preview();
}

bool PolicyChoice::is_measured_by(const RunRecord& run, const PolicySpec& policy) const {
  if (run.policy != policy) return false;
  const std::vector<std::int32_t> given = next_run_.budgets();
  const bool divides = policy.declared == nullptr && policy.has("allocation") && policy.value("allocation") != 0;
  if (!divides && run.budgets() != given) return false;
  const std::string of_run = gate_of(run), now = gate_name_for(run);
  return of_run.empty() || now.empty() || of_run == now;
}

bool PolicyChoice::is_of(const RunRecord& run) const {
  // A share that is less than sinks and window take was raised when the run began.
  const PolicySpec policy = with_least_budget(in_effect(), run.n_positions);
  if (!is_measured_by(run, policy)) return false;
  const auto local_heads = policy_of(policy).local_heads;
  const GateFacts* used = gate();
  if (local_heads == nullptr || run.local_heads().empty() || !used || used->alpha.empty()) return true;
  try {  // another head directory makes it another policy
    return local_heads(policy, {run.model.n_layers, run.model.n_kv_heads, used->alpha}) == run.local_heads();
  } catch (const std::invalid_argument&) {  // of another model
    return true;
  }
}

std::string PolicyChoice::gate_name_for(const RunRecord& run) const {
  const GateFacts* used = gate();
  if (!used || !engine_.model() || engine_.model()->weights_hash != run.model.weights_hash) return "";
  return used->gate.path != engine_.model_path() ? gate_name(used->gate.path) : "";
}

void PolicyChoice::clear_preview() {
  gate_probe_.forget();
  preview_.clear();
  runs_.update();
}

void PolicyChoice::request_preview() {
  clear_preview();
  const RunEntry *first = runs_.a(), *second = runs_.b();
  if (!first || first->run->n_tokens() == 0) return;
  const PolicySpec policy = with_least_budget(in_effect(), first->run->n_positions);
  if (is_measured_by(*first->run, policy)) return;
  if (second && is_measured_by(*second->run, policy)) return;  // no need to guess
  const GateOfModel* scorer = engine_.gates().scorer(policy_of(policy).info.gates);
  if (!lacks_scores(*first->run, policy, scorer ? scorer->kind : "", gate_name_for(*first->run)))
    return preview_.request(first->run, policy, nullptr, next_run_.budgets());
  auto gates = gate_probe_.look(first->run);
  if (gate_probe_.pending()) return preview_.wait();
  preview_.request(first->run, policy, std::move(gates), next_run_.budgets());
}

void PolicyChoice::put_back_preview() {
  request_preview();
  if (!engine_.model()) preview_.set_due(true);
}

void PolicyChoice::load_missing_gate() {
  const PolicySpec& policy = next_run_.parameters().policy;
  const PolicyInfo* info = find_policy(policy);
  if (!info || info->gates.empty() || gate() || engine_.run_in_progress()) return;
  if (const GateFacts* first = gates_.first_for(policy)) use_gate(first->gate.name);
}

void PolicyChoice::fit() {
  const PolicySpec wanted = next_run_.parameters().policy;
  const PolicyInfo* info = find_policy(wanted);
  if (!info || !info->needs_scorer || !engine_.model() || !gates_.known()) return;
  // The person has not asked for this policy: a B that was put there stays on show, and no preview takes its place.
  const bool b_stands = runs_.shown_b() && !preview_.shown(), due = preview_.due();
  load_missing_gate();
  if (b_stands) preview_.set_due(due);
  if (!engine_.model() || !engine_.model()->scorer.empty()) return;
  const PolicySpec fits = PolicySpec::parse("h2o:keep=25%,window=16");
  messages_.notify(engine_.model()->name + " has no gate for " + std::string(info->title) + ". The policy is now H2O.");
  next_run_.set_policy(fits);
  if (!b_stands) request_preview();
  wanted_ = wanted, taken_ = fits;
}

void PolicyChoice::take_model() {
  fit();
  const bool due = preview_.due();
  preview_.set_due(false);
  if (due || !runs_.shown_b() || preview_.shown()) request_preview();  // its gates may have what is not written
}

void PolicyChoice::take_offer() {
  const PolicySpec& now = next_run_.parameters().policy;
  const std::string& by_default = engine_.offer().default_policy;
  if (!by_default.empty() && now == NextRun::defaults().policy) next_run_.set_policy(PolicySpec::parse(by_default));
  if (now.declared == nullptr || find_declared(now.name) == now.declared) return;
  try {
    next_run_.set_policy(PolicySpec::parse(now.written()));
  } catch (const Error&) {  // the panel says that it is of another version
  }
}

PolicySpec PolicyChoice::take_wanted() {
  const auto wanted = std::exchange(wanted_, std::nullopt);
  const PolicySpec& now = next_run_.parameters().policy;
  return wanted && now == taken_ ? *wanted : now;
}

}  // namespace kvscope::app
