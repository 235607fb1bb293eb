#include "app/session/session.h"

#include <algorithm>
#include <utility>

#include "app/engine_client/run_setup.h"
#include "app/session/answer.h"
#include "app/session/run_titles.h"
#include "app/support/paths.h"
#include "app/support/usage.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/command_line.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/support/error.h"
#include "views/frame/leave_text.h"

namespace kvscope::app {
namespace {

/// Its tokens are those of its prompt's text: a command with that text does it again.
bool is_of_prompt(const RunRecord& run) {
  return run.asked != nullptr && run.asked->by_text && run.asked->request.messages.empty();
}

}  // namespace

Session::Session(Options options)
    : messages_(revision_),
      files_(options.trace_program, messages_, revision_, background_),
      remote_(messages_, revision_, options.wake),
      next_run_(revision_, background_),
      given_gates_(options.gates),
      gates_(revision_, background_, [this] { fit_policy(); }),
      models_(revision_, background_),
      engine_({.command = options.engine_command,
               .load = {.model = "", .device = options.device, .dtype = options.dtype, .gates = options.gates},
               .wake = options.wake,
               .on_snapshot = [this](RunAssembler::Snapshot snapshot) { take_snapshot(std::move(snapshot)); },
               .on_run_done = [this] { run_done(); },
               .on_model =
                   [this] {
                     files_.remember(engine_.model_path());
                     fit_policy();
                     if (std::exchange(preview_due_, false) || !shown_b() || preview_.shown())
                       request_preview();  // its gates may say what nobody wrote
                     if (std::exchange(resume_due_, false) && can_resume()) go_on_with_cut_run();
                   },
               .on_return = [this] { return_to_model(); }},
              messages_, revision_, background_),
      attention_(engine_, revision_),
      gate_probe_(engine_, [this] { request_preview(); }),
      preview_(options.wake, [this] { update_shown(); }),
      summaries_(revision_, options.wake),
      folders_(revision_, options.wake),
      studies_(options.trace_program, files_, messages_, revision_, background_, selection_),
      study_forms_(options.study_forms),
      study_jobs_(options.program, options.wake, messages_, revision_),
      background_(options.wake) {}

bool Session::poll() {
  const std::uint64_t before = revision();
  engine_.poll();
  gate_probe_.poll();
  preview_.poll();
  summaries_.poll();
  folders_.poll();
  messages_.poll();
  for (const auto& finish : background_.take_finished()) finish();
  remote_.poll();
  if (chat_.coming && !run_in_progress()) take_answer();
  begin_measuring();
  studies_.poll(engine_);
  study_jobs_.poll();
  go_on_with_point();
  return revision() != before;
}

void Session::ask_attention() {
  attention_.poll(shown_a() ? shown_a()->run : nullptr, selection_.layer, selection_.token);
}

// ------------------------------------------------------------------------------------------------ engine and runs

void Session::use_gate(const std::string& name) {
  const GateFacts* gate = gates_.find(name);
  if (!gate) {
    std::string names;
    for (const GateFacts& one : gates_.found()) names.append(names.empty() ? "" : ", ").append(one.gate.name);
    usage_error("gate", in_quotes(name), names.empty() ? "a gate of this model, but it has none" : names);
  }
  if (!gate->fits()) usage_error("gate", name + " does not fit: " + gate->misfit);
  const std::vector<std::string> wanted = gates_.with(*gate, engine_.gates_to_load());
  if (wanted == engine_.gates_to_load() || used_gate() == gate) return;
  engine_.check_idle();
  const std::string path = engine_.model_path();
  engine_.set_gates(wanted);
  engine_.load(path);
  preview_due_ = true;
}

const GateFacts* Session::used_gate() const { return gates_.used_by(parameters().policy, engine_.gates_to_load()); }

void Session::restart_engine() {
  messages_.engine_restarted();
  const bool cut_short = run_in_progress();
  engine_.discard();
  if (cut_short) {
    runs_.fail("the engine was restarted");
    update_shown();
  }
  engine_.start();
  if (const std::string path = engine_.model_path(); !path.empty()) open_model(path);
}

void Session::take_snapshot(RunAssembler::Snapshot snapshot) {
  const auto shown = [this] { return ChatListener::Shown(a() ? a()->id : 0, b() ? b()->id : 0); };
  const ChatListener::Shown before = shown();
  if (runs_.grow(std::move(snapshot))) preview_.clear();
  if (a() && a()->id != before.first) views::start_over(selection_);
  const bool takes_place = chat_.coming && a() && a()->id == chat_.run && before.first != chat_.run;
  if (takes_place && chat_listener_.on_place) chat_listener_.on_place(chat_, before, shown());
  if (a() && a()->id == runs_.newest_begun()) preview_.follow(a()->run);
  update_shown();
}

void Session::show_growing(std::shared_ptr<const RunRecord> run, std::uint64_t revision) {
  if (runs_.newest_begun() == 0) runs_.begin(*run, RunList::Place::a);
  take_snapshot({.request_id = -1, .run = std::move(run), .revision = revision});
}

void Session::start(Asked asked, RunList::Place place, const std::optional<RunRequest>& rest) {
  engine_.check_ready();
  if (asked.request.prompt.empty() && asked.request.prompt_ids.empty())
    usage_error("prompt", "empty", "at least one token");
  if (!rest) {
    raise_budget(asked.request);
    asked.gates = gates_of(asked.request.policy);
  }
  const RunRequest request = rest.value_or(asked.request);
  const RunRecord record = start_record(*engine_.model(), std::move(asked));
  cut_run_.reset();
  selection_.runs.clear();  // it is to be seen
  runs_.begin(record, place);
  engine_.begin_run(request, record);
  update_shown();
}

RunOrigin Session::from(RunOrigin::Kind kind, const RunEntry& entry, int q) const {
  return {.kind = kind,
          .of = entry.run->asked == nullptr ? "" : entry.run->asked->key,
          .title = (entry.name.empty() ? "" : entry.name + ": ") + policy_title(*entry.run),
          .q = q};
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

void Session::fork_run(int q) {
  if (!a() || q < 0 || q >= a()->run->n_tokens()) usage_error("q", std::to_string(q), "a query of A");
  RunRequest fork = next_run_.go_on(*a()->run, q);
  const RunRecord& of = *a()->run;
  const bool under_its_policy = is_measured_by(of, with_least_budget(policy_in_effect(), of.n_positions));
  // It is to have A's cache then: a share of its longer text would be another budget.
  if (fork.policy.budget && under_its_policy)
    fork.policy.budget = {BudgetSpec::Kind::tokens, static_cast<double>(of.policy.budget_tokens(of.n_positions))};
  start({.request = fork, .by_text = false, .origin = from(RunOrigin::Kind::fork, *a(), q)}, RunList::Place::b);
  const bool a_drew_next = q + 1 >= of.prompt_len;
  if (parameters().sampling.temperature == 0 && under_its_policy && a_drew_next)
    messages_.notify(
        "This fork repeats A's text, because sampling is greedy and the policy is A's. Change one of "
        "them for a different text.");
}

void Session::decode_again() {
  if (!a() || a()->run->prompt_len == 0) return start_run();
  RunRequest again = next_run_.decode_again(*a()->run);
  // The tokens are A's, whatever the prompt is set to now; so is how its text became them.
  if (a()->run->asked != nullptr) again.raw = a()->run->asked->request.raw;
  start({.request = again, .by_text = is_of_prompt(*a()->run)}, RunList::Place::b);
}

void Session::replay() { replay(parameters().policy); }

void Session::replay(const PolicySpec& policy) {
  if (!a() || a()->run->n_tokens() == 0) usage_error("replay", "no run A");
  RunRequest request = next_run_.replay(*a()->run);
  request.policy = policy;
  start({.request = request, .by_text = false, .origin = from(RunOrigin::Kind::replay, *a())}, RunList::Place::b);
}

void Session::run_done() {
  if (const RunEntry* entry = find_run(runs_.newest_begun())) {
    messages_.log(summary(*entry));
    const RunRecord& run = *entry->run;
    if (const auto cut = std::exchange(cut_run_, nullptr)) compare_with_cut_run(*cut, run);
    if (run.status == RunStatus::cancelled)
      messages_.notify("stopped at " + std::to_string(run.n_tokens() - run.prompt_len) + " of " +
                       std::to_string(run.n_positions - run.prompt_len) + " new tokens");
    compare_with_study();
  }
  suggest_metric();
  // Whoever had a run decoded beside A is to see it; a preview comes with the next change of the policy.
  if (!b() || b()->id != runs_.newest_begun()) request_preview();
}

void Session::show(int a_id, int b_id) {
  const int old_a = a() ? a()->id : 0, old_b = b() ? b()->id : 0;
  runs_.show(a_id, b_id);
  // Whoever asks for B wants to see it, not the preview in its place.
  if (a_id != old_a || b_id != 0) preview_.clear(), preview_due_ = false;
  update_shown();
  if (b_id != old_b) suggest_metric();
}

void Session::rename_run(int id, const std::string& name) {
  if (!find_run(id)) usage_error("id", "no run " + std::to_string(id));
  runs_.rename(id, name);
  update_shown();
}

void Session::swap() {
  if (a() && b()) show(b()->id, a()->id);
}

void Session::remove_run(int id) {
  if (id == runs_.newest_begun() && run_in_progress()) usage_error("run", "it is in progress", "", "stop it first");
  if (a() && a()->id == id) preview_.clear();
  runs_.remove(id);
  update_shown();
}

std::set<int> Session::removed_runs() const {
  std::set<int> ids;
  for (const RunEntry& entry : runs_.removed()) ids.insert(entry.id);
  return ids;
}

void Session::set_removed_runs(const std::set<int>& ids) {
  const std::set<int> before = removed_runs();
  if (before == ids) return;
  for (const int id : before) {
    if (!ids.contains(id)) runs_.bring_back(id);
  }
  for (const int id : ids) {
    if (find_run(id)) remove_run(id);
  }
  read_on_traces();
  update_shown();
}

void Session::forget_runs(const std::set<int>& ids) {
  for (const int id : ids) runs_.forget(id);
}

void Session::put_back_run(RunEntry entry) {
  if (runs_.all().empty()) models_.look();  // one of them may be its model
  runs_.put_back(std::move(entry));
  update_shown();
}

void Session::leave_text_of_a() {
  const RunEntry* now = a();
  if (!now || now->run->n_tokens() == 0) return;
  const auto before = std::exchange(selected_of_, {now->id, now->run});
  if (!before.second || before.first == now->id) return;
  const RunRecord &old = *before.second, &run = *now->run;
  int n = common_prefix(old, run);
  for (int t = 0; t < n; ++t) {  // of another model an id is another text
    if (old.pieces.size() > static_cast<std::size_t>(t) && run.pieces.size() > static_cast<std::size_t>(t) &&
        old.pieces[static_cast<std::size_t>(t)] != run.pieces[static_cast<std::size_t>(t)])
      n = t;
  }
  views::leave_text(selection_, n, old.prompt_len == run.prompt_len && n >= old.prompt_len);
}

void Session::update_shown() {
  shown_.update(runs_, preview_);
  leave_text_of_a();
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

int Session::n_positions() const {
  const RunEntry* first = a();
  const bool of_a =
      first && first->run->n_positions > 0 &&
      (!engine_.model() || first->run->prompt_text == next_run_.asked());  // without a model A is all there is
  return of_a ? first->run->n_positions : next_run_.n_positions();
}

std::string Session::command_line() const {
  const std::string& model = engine_.model_path();
  return kvscope::command_line(model.empty() ? "MODEL" : model,
                               {.request = next_run_.request(), .gates = gates_of(parameters().policy)});
}

// A head directory is read by hybrids alone; the board's own is on no other machine.
static bool is_head_directory(const std::string& path) {
  return gate_format(path) == std::optional<std::string>("duo");
}

std::vector<GateRef> Session::gates_of(const PolicySpec& policy) const {
  std::vector<GateRef> gates;
  for (const std::string& path : engine_.gates_to_load()) {
    const auto& found = gates_.found();
    const auto facts = std::ranges::find_if(found, [&](const GateFacts& gate) { return gate.gate.path == path; });
    // One that changes the weights counts under every policy; what another machine has is not known here.
    const bool counts = facts == found.end()
                            ? !is_head_directory(path) || policy_of(policy).reads_heads(policy)
                            : facts->kind == "lora" || !facts->adapter.empty() || reads_gate(policy, facts->kind);
    if (!counts) continue;
    gates.push_back({.given = path});
    if (facts != found.end()) gates.back().name = facts->gate.name, gates.back().hash = facts->hash;
  }
  // One beside the model's weights is read in any case: no command names it.
  const GateFacts* used = gates_.used_by(policy, engine_.gates_to_load());
  if (used != nullptr && std::ranges::count(gates, used->gate.path.string(), &GateRef::given) == 0)
    gates.push_back({.given = "", .name = used->gate.name, .hash = used->hash});
  return gates;
}

}  // namespace kvscope::app
