#include "app/session/open_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "app/catalog/adapters.h"
#include "app/session/gate_title.h"
#include "app/support/usage.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

std::string name_of_model(const std::string& folder) {
  return escape_for_terminal(std::filesystem::path(folder).filename().string(), 60);
}

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

void ModelList::look() {
  if (std::exchange(looking_, true)) return;
  background_.post(
      [this]() -> Worker::Finish {
        auto found = std::make_shared<std::vector<KnownModel>>(known_models());
        return [this, found] {
          all_ = std::move(*found);
          looking_ = false;
          revision_.rise();
        };
      },
      [this](const std::string&) { looking_ = false; });
}

OpenModel::OpenModel(NextRun& next_run, EngineLink& engine, PolicyChoice& policy, Files& files, Messages& messages,
                     ModelList known, std::vector<std::string> given_gates)
    : next_run_(next_run),
      engine_(engine),
      policy_(policy),
      files_(files),
      messages_(messages),
      known_(std::move(known)),
      given_gates_(std::move(given_gates)) {}

void OpenModel::open(const std::string& path, const std::vector<std::string>& gates) {
  engine_.check_idle();
  const ModelChoice* chosen = find_choice(path);
  const std::vector<std::string> before = chosen ? chosen->gates : path == added_to_ ? added_gates_ : given_gates_;
  const bool is_other = path != engine_.model_path();
  turn_to(path, true);
  if (is_other) engine_.set_gates(gates.empty() ? before : gates);
  engine_.load(path);
  if (engine_.state() != EngineState::dead) look();
}

bool OpenModel::has_folder(const std::string& path) const {
  const std::string& open = engine_.model_path();
  if (folder_.path == path && folder_.open_model == open) return folder_.is_there;
  std::error_code error;
  folder_ = {path, open, std::filesystem::is_directory(path, error)};
  return folder_.is_there;
}

std::string OpenModel::folder_of(const ModelInfo& model) const {
  if (!model.path.empty() && has_folder(model.path)) return model.path;
  const auto& known = known_.all();
  const auto found = std::ranges::find_if(known, [&](const KnownModel& one) {
    return !one.path.empty() && !model.name.empty() && (one.name == model.name || one.path.filename() == model.name);
  });
  return found == known.end() ? "" : found->path.string();
}

bool OpenModel::reads_folder() const {
  return next_run_.reads_tokenizer() || (!engine_.model_path().empty() && !policy_.gates().known());
}

void OpenModel::go_back() {
  turn_to(engine_.model_path(), false);
  look();
}

void OpenModel::set_choices(const std::vector<ModelChoice>& choices, const std::string& model) {
  for (ModelChoice choice : choices) {
    if (!given_gates_.empty()) choice.gates = given_gates_;  // this start's command line goes before the last session
    keep(std::move(choice));
  }
  chosen_for_ = model;
}

void OpenModel::keep(ModelChoice choice) {
  std::erase_if(choices_, [&](const ModelChoice& other) { return other.model == choice.model; });
  choices_.push_back(std::move(choice));
  if (choices_.size() > ModelChoice::kMost) choices_.erase(choices_.begin());
}

const ModelChoice* OpenModel::find_choice(const std::string& model) const {
  const auto found = std::ranges::find(choices_, model, &ModelChoice::model);
  return found == choices_.end() ? nullptr : &*found;
}

void OpenModel::turn_to(const std::string& model, bool keep_last) {
  if (model == chosen_for_) return;
  const PolicySpec policy = next_run_.parameters().policy;
  const bool raw = next_run_.parameters().raw;
  if (keep_last && !chosen_for_.empty()) {
    const ModelChoice* last = engine_.model_path() == chosen_for_ ? nullptr : find_choice(chosen_for_);
    keep({chosen_for_, policy, raw, last ? last->gates : engine_.gates_to_load()});
  }
  const bool had_model = !chosen_for_.empty();
  const bool was_forced_raw = std::exchange(forced_raw_, false);
  const PolicySpec wanted = policy_.take_wanted();
  chosen_for_ = model;
  if (!had_model) return;
  const ModelChoice* known = find_choice(model);
  // What a model did not allow was not chosen: the next one that nothing was chosen for begins with what was wanted.
  const bool wants_raw = known ? known->raw : raw && !was_forced_raw;
  const PolicySpec wants = known ? known->policy : wanted;
  std::string changed;
  if (wants_raw != raw) changed = wants_raw ? "Chat is off" : "Chat is on";
  if (!(wants == policy)) changed += (changed.empty() ? "the policy is " : ", the policy is ") + method_name(wants);
  if (changed.empty() && wants.unwritten == policy.unwritten) return;
  next_run_.set_raw(wants_raw);
  next_run_.set_policy(wants);
  policy_.clear_preview();
  if (!changed.empty())
    messages_.notify(name_of_model(model) + ": " + changed +
                     (known ? ", as last used with this model" : ", as before"));
}

void OpenModel::look() {
  next_run_.read_tokenizer(engine_.model_path(), [this](const std::string& refusal) {
    forced_raw_ = true;
    messages_.notify(name_of_model(engine_.model_path()) +
                     (refusal.empty() ? " has no chat template. Chat is off: the model continues the raw text."
                                      : ": Chat is off, and the model continues the raw text. " + refusal));
  });
  std::vector<std::string> given = given_gates_;
  if (added_to_ == engine_.model_path()) given.insert(given.begin(), added_gates_.begin(), added_gates_.end());
  for (const std::string& path : engine_.gates_to_load()) {  // the board's heads of the last session
    if (gate_name(path).starts_with(kBoardFolder) && std::ranges::find(given, path) == given.end())
      given.push_back(path);
  }
  policy_.gates().look(engine_.model_path(), given);
}

void OpenModel::add_gate(const std::string& given) {
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

void OpenModel::take_gate(const GateFacts& facts) {
  engine_.check_idle();
  const std::string path = facts.gate.path.string();
  std::erase(added(), path);
  added().insert(added().begin(), path);
  policy_.gates().add(facts);
  if (!is_pipe(path)) files_.remember(path);  // a list of files starts no program
  const bool is_read = reads_gate(next_run_.parameters().policy, facts.kind);
  engine_.reload_with(policy_.gates().with(facts, engine_.gates_to_load()));
  const bool changes = !is_read && !facts.is_adapter_alone();
  if (changes) policy_.set(policy_for(facts.kind));
  // While the model is loaded with it the status line shows that; this stays true after it.
  messages_.notify("loaded the gate " + facts.gate.name + " (" + scorer_title(facts.kind) + ")" +
                   (changes ? ": the policy is now " + method_name(next_run_.parameters().policy) +
                                  ", which uses it (Ctrl+Z to undo)"
                            : ""));
}

void OpenModel::choose_gate(const std::string& name) {
  policy_.use_gate(name);
  const GateFacts* gate = policy_.gates().find(name);
  if (gate->is_adapter_alone() || reads_gate(next_run_.parameters().policy, gate->kind)) return;
  policy_.set(policy_for(gate->kind));
}

void OpenModel::drop_gate(const std::string& name) {
  engine_.check_idle();
  const GateFacts* gate = policy_.gates().find(name);
  std::vector<std::string> rest = engine_.gates_to_load();
  if (!gate || std::erase(rest, gate->gate.path.string()) == 0) {
    const bool beside = gate && gate->gate.origin == KnownGate::Origin::model && gate->adapter.empty();
    usage_error("gate", beside ? name + " belongs to the model's folder and is loaded with the model"
                               : name + " is not loaded");
  }
  // A policy that has lost its gate would take it again at once.
  if (policy_.is_used(*gate)) usage_error("gate", name + " is in use", "", "choose another policy or gate first");
  engine_.reload_with(std::move(rest));
  messages_.notify("unloaded the gate " + name);
}

void OpenModel::load_heads(const GateFacts& heads) {
  policy_.gates().add(heads);
  const auto with_these_alone = [&](const std::vector<std::string>& given) {
    // A board that an earlier start has loaded is none that was found here.
    std::vector<std::string> gates = policy_.gates().with(heads, given);
    std::erase_if(gates, [&path = heads.gate.path](const std::filesystem::path& other) {
      return other != path && other.parent_path() == path.parent_path();
    });
    return gates;
  };
  added() = with_these_alone(added());
  engine_.reload_with(with_these_alone(engine_.gates_to_load()));
}

std::vector<std::string>& OpenModel::added() {
  if (added_to_ != engine_.model_path()) added_gates_.clear(), added_to_ = engine_.model_path();
  return added_gates_;
}

}  // namespace kvscope::app
