// Session: a run that its engine's end has cut off goes on.

#include "app/session/session.h"
#include "app/support/usage.h"
#include "engine/core/study/measure/lifetime_differences.h"

namespace kvscope::app {
namespace {

/// What was asked for, from where it had come. A prompt that had not passed is asked for again, as is what draws nothing.
RunRequest rest_of(const RunRequest& begun, const RunRecord& cut) {
  RunRequest rest = begun;
  if (cut.n_tokens() == 0) return rest;
  rest.prompt_ids.assign(cut.ids.begin(), cut.ids.begin() + cut.prompt_len);
  rest.messages.clear();  // its tokens are said
  rest.raw = true;
  rest.chat = {};
  // What was changed while it went on holds as it did; what was planned for later is still to come.
  rest.changes = cut.changes;
  for (const PolicyChange& change : begun.changes) {
    if (change.q > cut.n_tokens()) rest.changes.push_back(change);
  }
  rest.thresholds = cut.thresholds();
  if (rest.budgets.empty()) rest.budgets = cut.budgets_to_repeat();
  if (!begun.draws() || cut.n_tokens() == cut.prompt_len) return rest;
  rest.answer_ids.emplace(cut.ids.begin() + cut.prompt_len, cut.ids.end());
  rest.draw_on = true;
  return rest;
}

}  // namespace

bool Session::can_resume() const {
  return engine_.run_cut_off() && !run_in_progress() && find_run(runs_.newest_begun()) != nullptr;
}

void Session::resume_run() {
  if (!can_resume()) usage_error("run", "no run was cut off by the engine");
  if (engine_.state() == EngineState::ready && engine_.model()) return go_on_with_cut_run();
  resume_due_ = true;
  restart_engine();
}

void Session::go_on_with_cut_run() {
  const RunEntry entry = *find_run(runs_.newest_begun());
  const bool is_b = b() && b()->id == entry.id;
  const bool of_chat = entry.id == chat_.run;
  // A turn without a token of an answer had become a draft again.
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  const bool is_draft = of_chat && (turns.empty() || turns.back().role != "user") && chat_.text.empty() &&
                        parameters().prompt == entry.run->prompt_text;
  Asked asked = *entry.run->asked;  // the run as a whole is what was asked; the engine is asked for the rest
  const RunRequest rest = rest_of(asked.request, *entry.run);
  asked.origin = from(RunOrigin::Kind::resumed, entry, entry.run->n_tokens() - 1);
  start(std::move(asked), is_b ? RunList::Place::b : RunList::Place::a, rest);
  cut_run_ = entry.run;
  if (!of_chat) return;
  if (is_draft) next_run_.sent();
  begin_answer(chat_.so_far, chat_.tokens_before);
}

void Session::compare_with_cut_run(const RunRecord& cut, const RunRecord& run) {
  if (cut.n_tokens() == 0 || run.status == RunStatus::failed) return;
  const LifetimeDifferences found = lifetime_differences(cut, run);
  const std::string from = "resumed from token " + std::to_string(cut.n_tokens()) + ": ";
  if (found.n_different == 0) {
    messages_.notify(from + "its " + std::to_string(found.n) + " earlier evictions are unchanged");
  } else {
    messages_.notify(from + std::to_string(found.n_different) + " of its " + std::to_string(found.n) +
                     " earlier evictions differ from before");
  }
}

}  // namespace kvscope::app
