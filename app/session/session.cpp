#include "app/session/session.h"

#include <algorithm>
#include <utility>

#include "app/process/paths.h"
#include "app/process/usage.h"
#include "app/session/run_setup.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

Session::Session(Options options)
    : messages_(revision_),
      files_(options.trace_program, messages_, revision_, background_),
      next_run_(revision_, background_),
      given_gates_(options.gates),
      gates_(revision_, background_, [this] { fit_policy(); }),
      engine_({.command = options.engine_command,
               .load = {.model = "", .device = options.device, .dtype = options.dtype, .gates = options.gates},
               .wake = options.wake,
               .on_snapshot =
                   [this](RunAssembler::Snapshot snapshot) {
                     runs_.grow(std::move(snapshot));
                     if (a() && a()->id == runs_.newest_begun()) preview_.follow(a()->run);
                     update_shown();
                   },
               .on_run_done = [this] { run_done(); },
               .on_model =
                   [this] {
                     fit_policy();
                     request_preview();  // its gates may say what nobody wrote
                   }},
              messages_, revision_, background_),
      preview_(options.wake, [this] { update_shown(); }),
      background_(options.wake) {}

bool Session::poll() {
  const std::uint64_t before = revision();
  engine_.poll();
  preview_.poll();
  for (const auto& finish : background_.take_finished()) finish();
  return revision() != before;
}

// ------------------------------------------------------------------------------------------------ engine and runs

void Session::open_model(const std::string& path) {
  if (path != engine_.model_path()) engine_.set_gates(given_gates_);
  engine_.load(path);
  if (engine_.state() == EngineState::dead) return;
  files_.remember(path);
  next_run_.read_tokenizer(path);
  gates_.look(path, given_gates_);
}

void Session::use_gate(const std::string& name) {
  const GateFacts* gate = gates_.find(name);
  if (!gate) {
    std::string names;
    for (const GateFacts& one : gates_.found()) names.append(names.empty() ? "" : ", ").append(one.gate.name);
    usage_error("gate", in_quotes(name), names.empty() ? "a gate of this model, which has none" : names);
  }
  if (!gate->fits()) usage_error("gate", name + " does not fit: " + gate->misfit);
  const std::vector<std::string> wanted = gates_.with(*gate, engine_.gates_to_load());
  if (wanted == engine_.gates_to_load() || used_gate() == gate) return;
  engine_.check_idle();
  const std::string path = engine_.model_path();
  engine_.set_gates(wanted);
  engine_.load(path);
}

const GateFacts* Session::used_gate() const { return gates_.used_by(parameters().policy, engine_.gates_to_load()); }

void Session::load_missing_gate() {
  const PolicySpec& policy = parameters().policy;
  const PolicyInfo* info = find_policy(policy.name);
  if (!info || info->gates.empty() || used_gate() || run_in_progress()) return;
  if (const GateFacts* gate = gates_.first_for(policy)) use_gate(gate->gate.name);
}

void Session::fit_policy() {
  const PolicyInfo* info = find_policy(parameters().policy.name);
  if (!info || !info->needs_scorer || !engine_.model() || !gates_.known()) return;
  load_missing_gate();
  if (!engine_.model() || !engine_.model()->scorer.empty()) return;
  const PolicySpec fits = PolicySpec::parse("h2o:keep=25%,window=16");
  messages_.notify(engine_.model()->name + " has no gate for " + std::string(info->title) + ": the policy is now " +
                   fits.to_string());
  set_policy(fits);
}

void Session::restart_engine() {
  messages_.dismiss_engine_errors();
  const bool cut_short = run_in_progress();
  engine_.discard();
  if (cut_short) {
    runs_.fail("the engine was restarted");
    update_shown();
  }
  engine_.start();
  if (const std::string path = engine_.model_path(); !path.empty()) open_model(path);
}

void Session::start(RunRequest request, RunList::Place place) {
  engine_.check_ready();
  if (request.prompt.empty() && request.prompt_ids.empty())
    usage_error("prompt", "nothing in it", "at least one token");
  raise_budget(request);
  clear_preview();
  const RunRecord record = start_record(*engine_.model(), request);
  runs_.begin(record, place);
  engine_.begin_run(request, record);
  if (place == RunList::Place::a) views::start_over(selection_);
  update_shown();
}

// A share of a short text can be less than sinks and window take: a first prompt of one's own would be refused.
void Session::raise_budget(RunRequest& request) {
  const int n = request.prompt_ids.empty() ? next_run_.n_positions()
                                           : static_cast<int>(request.prompt_ids.size()) + request.max_tokens;
  const auto raised = raised_budget(policy_on_model(request.policy), n);
  if (!raised) return;
  request.policy.budget = {BudgetSpec::Kind::tokens, static_cast<double>(raised->least)};
  messages_.notify(describe_raised(*raised, n));
}

void Session::start_run() { start(next_run_.request(), RunList::Place::a); }

void Session::decode_again() {
  if (!a() || a()->run->prompt_len == 0) return start_run();
  start(next_run_.decode_again(*a()->run), RunList::Place::b);
}

void Session::replay() { replay(parameters().policy); }

void Session::replay(const PolicySpec& policy) {
  if (!a() || a()->run->n_tokens() == 0) usage_error("replay", "no run A");
  RunRequest request = next_run_.replay(*a()->run);
  request.policy = policy;
  start(request, RunList::Place::b);
}

void Session::run_done() {
  if (const RunEntry* entry = find_run(runs_.newest_begun())) {
    messages_.log(summary(*entry));
    const RunRecord& run = *entry->run;
    if (run.status == RunStatus::cancelled)
      messages_.notify("stopped at " + std::to_string(run.n_tokens() - run.prompt_len) + " of " +
                       std::to_string(run.n_positions - run.prompt_len) + " new tokens");
  }
  request_preview();
}

void Session::show(int a_id, int b_id) {
  const int old_a = a() ? a()->id : 0;
  runs_.show(a_id, b_id);
  if (a_id != old_a) preview_.clear();
  update_shown();
}

void Session::swap() {
  if (a() && b()) show(b()->id, a()->id);
}

void Session::remove_run(int id) {
  if (id == runs_.newest_begun() && run_in_progress()) usage_error("run", "it is in progress", "", "cancel it first");
  if (a() && a()->id == id) preview_.clear();
  runs_.remove(id);
  update_shown();
}

void Session::update_shown() {
  shown_.update(runs_, preview_);
  clamp_selection();
  revision_.rise();
}

void Session::clamp_selection() {
  if (!shown_a()) return;
  const RunRecord* run = shown_a()->run.get();
  const views::Cursor at = views::cursor(selection_, *run);
  selection_.layer = at.layer, selection_.kv_head = at.kv_head, selection_.token = at.token;
  selection_.hovered_token = std::clamp(selection_.hovered_token, -1, run->n_tokens() - 1);
  if (selection_.q) selection_.q = at.q;
}

// ------------------------------------------------------------------------------------------------ policy and preview

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

void Session::clear_preview() {
  preview_.clear();
  update_shown();
}

void Session::request_preview() {
  clear_preview();
  const RunEntry *first = a(), *second = b();
  if (!first || first->run->n_tokens() == 0) return;
  const PolicySpec policy = with_least_budget(policy_in_effect(), first->run->n_positions);
  if (first->run->policy == policy) return;
  if (second && second->run->policy == policy) return;  // measured: no need to guess
  preview_.request(first->run, policy);
}

int Session::n_positions() const {
  const RunEntry* first = a();
  const bool same_prompt = first && first->run->n_positions > 0 && first->run->prompt_text == parameters().prompt;
  return same_prompt ? first->run->n_positions : next_run_.n_positions();
}

std::string Session::command_line() const {
  const std::string& model = engine_.model_path();
  std::string line = run_command_line(model.empty() ? "MODEL" : model, next_run_.request());
  for (const std::string& gate : engine_.gates_to_load()) line += " --gate " + shell_quote(gate);
  return line;
}

// ------------------------------------------------------------------------------------------------ traces

void Session::open_trace(const std::string& path) {
  files_.open_trace(path, [this, path](const Files::Runs& runs) {
    const int first = runs_.add(runs.front(), path);
    for (auto run = runs.begin() + 1; run != runs.end(); ++run) runs_.add(*run, path);
    if (parameters().prompt.empty() || !engine_.model()) next_run_.set_prompt(runs.front()->prompt_text);
    show(first, 0);
  });
}

void Session::save_trace(int run_id, const std::string& path, bool overwrite) {
  const RunEntry* entry = find_run(run_id);
  if (!entry || entry->run->n_tokens() == 0) usage_error("trace", "no run to save");
  if (run_id == runs_.newest_begun() && run_in_progress())
    usage_error("trace", "the run is in progress", "", "save it when it has ended");
  files_.save_trace(path, entry->run, overwrite, [this, run_id, path] { runs_.set_trace_path(run_id, path); });
}

}  // namespace kvscope::app
