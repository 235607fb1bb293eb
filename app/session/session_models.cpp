// Session: which model is open, and what was chosen for it.

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/session/gate_title.h"
#include "app/session/session.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

std::string name_of_model(const std::string& folder) {
  return escape_for_terminal(std::filesystem::path(folder).filename().string(), 60);
}

}  // namespace

void Session::open_model(const std::string& path, const std::vector<std::string>& gates) {
  engine_.check_idle();
  const ModelChoice* chosen = choices_.find(path);
  const std::vector<std::string> before = chosen ? chosen->gates : path == added_to_ ? added_gates_ : given_gates_;
  const bool is_other = path != engine_.model_path();
  turn_to(path, true);
  if (is_other) engine_.set_gates(gates.empty() ? before : gates);
  engine_.load(path);
  if (engine_.state() != EngineState::dead) look_at_model();
}

bool Session::has_model_folder(const std::string& path) const {
  const std::string& open = engine_.model_path();
  if (model_folder_.path == path && model_folder_.open_model == open) return model_folder_.is_there;
  std::error_code error;
  model_folder_ = {path, open, std::filesystem::is_directory(path, error)};
  return model_folder_.is_there;
}

std::string Session::folder_of(const ModelInfo& model) const {
  if (!model.path.empty() && has_model_folder(model.path)) return model.path;
  const auto& known = models_.all();
  const auto found = std::ranges::find_if(known, [&](const KnownModel& one) {
    return !one.path.empty() && !model.name.empty() && (one.name == model.name || one.path.filename() == model.name);
  });
  return found == known.end() ? "" : found->path.string();
}

bool Session::reads_model_folder() const {
  return next_run_.reads_tokenizer() || (!engine_.model_path().empty() && !gates_.known());
}

void Session::return_to_model() {
  turn_to(engine_.model_path(), false);
  look_at_model();
}

void Session::set_choices(const ModelChoices& choices, const std::string& model) {
  for (ModelChoice choice : choices.all()) {
    if (!given_gates_.empty()) choice.gates = given_gates_;  // this start's command line goes before the last session
    choices_.keep(std::move(choice));
  }
  chosen_for_ = model;
}

void Session::turn_to(const std::string& model, bool keep_last) {
  if (model == chosen_for_) return;
  const PolicySpec policy = parameters().policy;
  const bool raw = parameters().raw;
  if (keep_last && !chosen_for_.empty()) {
    const ModelChoice* last = engine_.model_path() == chosen_for_ ? nullptr : choices_.find(chosen_for_);
    choices_.keep({chosen_for_, policy, raw, last ? last->gates : engine_.gates_to_load()});
  }
  const bool had_model = !chosen_for_.empty();
  const Forced forced = std::exchange(forced_, {});
  chosen_for_ = model;
  if (!had_model) return;
  const ModelChoice* known = choices_.find(model);
  // What a model did not allow was nobody's choice: the next one that nothing was chosen for begins with what was wanted.
  const bool wants_raw = known ? known->raw : raw && !forced.raw;
  const PolicySpec wants = known ? known->policy : forced.wanted && policy == forced.taken ? *forced.wanted : policy;
  std::string changed;
  if (wants_raw != raw) changed = wants_raw ? "Chat is off" : "Chat is on";
  if (!(wants == policy))
    changed += (changed.empty() ? "the policy is " : ", the policy is ") + method_name(wants.name);
  if (changed.empty() && wants.unwritten == policy.unwritten) return;
  next_run_.set_raw(wants_raw);
  next_run_.set_policy(wants);
  clear_preview();
  if (!changed.empty())
    messages_.notify(name_of_model(model) + ": " + changed +
                     (known ? ", as last used with this model" : ", as before"));
}

void Session::look_at_model() {
  next_run_.read_tokenizer(engine_.model_path(), [this](const std::string& refusal) {
    forced_.raw = true;
    messages_.notify(name_of_model(engine_.model_path()) +
                     (refusal.empty() ? " has no chat template. Chat is off: the model continues the raw text."
                                      : ": Chat is off, and the model continues the raw text. " + refusal));
  });
  std::vector<std::string> given = gates_beside();
  for (const std::string& path : engine_.gates_to_load()) {  // the board's heads of the last session
    if (gate_name(path).starts_with(kBoardFolder) && std::ranges::find(given, path) == given.end())
      given.push_back(path);
  }
  gates_.look(engine_.model_path(), given);
}

void Session::load_missing_gate() {
  const PolicySpec& policy = parameters().policy;
  const PolicyInfo* info = find_policy(policy.name);
  if (!info || info->gates.empty() || used_gate() || run_in_progress()) return;
  if (const GateFacts* gate = gates_.first_for(policy)) use_gate(gate->gate.name);
}

void Session::fit_policy() {
  const PolicySpec wanted = parameters().policy;
  const PolicyInfo* info = find_policy(wanted.name);
  if (!info || !info->needs_scorer || !engine_.model() || !gates_.known()) return;
  // Nobody asked for this policy: a B that was put there stays on show, and no preview takes its place.
  const bool b_stands = shown_b() && !preview_.shown(), due = preview_due_;
  load_missing_gate();
  if (b_stands) preview_due_ = due;
  if (!engine_.model() || !engine_.model()->scorer.empty()) return;
  const PolicySpec fits = PolicySpec::parse("h2o:keep=25%,window=16");
  messages_.notify(engine_.model()->name + " has no gate for " + std::string(info->title) + ". The policy is now H2O.");
  next_run_.set_policy(fits);
  if (!b_stands) request_preview();
  forced_.wanted = wanted, forced_.taken = fits;
}

}  // namespace kvscope::app
