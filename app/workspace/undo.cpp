#include "app/workspace/undo.h"

#include <functional>
#include <tuple>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {

Undo::Undo(Session& session, Layout& layout, Appearance& appearance, Clock clock)
    : session_(session),
      layout_(layout),
      appearance_(appearance),
      clock_(std::move(clock)),
      history_(capture_state(session, layout, appearance)) {
  session_.chat().listen({std::bind_front(&Undo::take_place, this), std::bind_front(&Undo::take_answer, this)});
}

Undo::~Undo() { session_.chat().listen({}); }

WorkspaceState Undo::capture() const { return capture_state(session_, layout_, appearance_, &history_.present()); }

void Undo::changed() {
  // A run that no step leads back to goes for good.
  if (const std::set<int> gone = history_.unreachable_runs(); !gone.empty()) {
    session_.runs().forget(gone);
    history_.forget_runs(gone);
  }
  if (changed_) changed_();
}

void Undo::step(WorkspaceState state) {
  history_.change(std::move(state), {clock_(), gesture_}, std::exchange(label_, ""));
  changed();
}

void Undo::observe() {
  WorkspaceState now = capture();
  if (now == history_.present()) {
    label_.clear();
    return;
  }
  // Whoever chooses the metric that is on show changes nothing that he could see come back.
  WorkspaceState seen = now;
  seen.selection.metric_chosen = history_.present().selection.metric_chosen;
  if (seen == history_.present()) {
    history_.absorb(std::move(now));
    return changed();
  }
  step(std::move(now));
}

void Undo::observe_automatic() {
  WorkspaceState now = capture();
  if (now == history_.present()) return;
  WorkspaceState but_selection = now;
  but_selection.selection = history_.present().selection;
  but_selection.selection.study.open = now.selection.study.open;  // which was read, as a trace was
  if (history_.steps() == 0 || but_selection == history_.present()) {
    history_.absorb(std::move(now));
    changed();
    return;
  }
  history_.end_step();
  step(std::move(now));
  history_.end_step();
}

// A run that goes on from an answer changes nothing when it begins: its place is the first step of it.
void Undo::take_place(const ChatAnswer& answer, ChatListener::Shown before, ChatListener::Shown after) {
  if (answer.goes_on()) return;
  history_.amend([&](WorkspaceState& state) {
    if (state.parameters.chat.turns == answer.asked && ChatListener::Shown(state.a, state.b) == before)
      std::tie(state.a, state.b) = after;
  });
}

void Undo::take_answer(const ChatAnswer& answer, const std::vector<ChatMessage>& answered) {
  bool begun = !answer.goes_on();
  history_.amend([&](WorkspaceState& state) {
    begun = begun || state.a == answer.run;
    if (begun && state.parameters.chat.turns == answer.asked) state.parameters.chat.turns = answered;
  });
}

void Undo::amend_selection(const std::function<void(views::Selection&)>& change) {
  change(session_.selection());
  history_.amend([&](WorkspaceState& state) { change(state.selection); });
}

void Undo::start() {
  history_ = UndoHistory(capture());
  changed();
}

// A policy may bring its gate with it, a run may have fewer layers now: what it became is the state that was asked for.
void Undo::apply(const WorkspaceState& state) {
  const WorkspaceState wanted = state;
  const auto settle = [this] {
    history_.absorb(capture());
    changed();
  };
  try {
    apply_state(wanted, session_, layout_, appearance_);
  } catch (const Error&) {  // a gate that cannot be loaded now
    settle();
    throw;
  }
  settle();
}

void Undo::undo() {
  if (history_.can_undo()) apply(history_.undo());
}

void Undo::redo() {
  if (history_.can_redo()) apply(history_.redo());
}

}  // namespace kvscope::app
