#include "app/workspace/undo_history.h"

#include <utility>

namespace kvscope::app {

UndoHistory::UndoHistory(WorkspaceState first) { states_.push_back(std::move(first)); }

bool UndoHistory::continues(const StateChange& change, const WorkspaceState& state, const Hand& hand) const {
  if (at_ == 0 || ended_ || can_redo()) return false;
  const Step& last = steps_[at_ - 1];
  if (hand.gesture != 0) return hand.gesture == last.hand.gesture;
  if (last.hand.gesture != 0 || !change.gradual || change.kind != last.change.kind) return false;
  if (hand.time - last.hand.time > kPause) return false;
  return change.kind != "prompt" || same_word(*states_[at_ - 1].prompt, *present().prompt, *state.prompt);
}

void UndoHistory::change(WorkspaceState state, const Hand& hand, std::string label) {
  StateChange change = describe_change(present(), state);
  if (label.empty() && continues(change, state, hand)) {
    states_[at_] = std::move(state);
    steps_[at_ - 1] = {describe_change(states_[at_ - 1], states_[at_]), hand};
    if (states_[at_ - 1] == states_[at_]) {  // there and back again
      states_.pop_back(), steps_.pop_back();
      --at_;
      ended_ = true;  // what comes next is no part of an older step
    }
    return;
  }
  states_.resize(at_ + 1, present());
  steps_.resize(at_);
  if (!label.empty()) change = {.kind = "", .label = std::move(label)};
  states_.push_back(std::move(state));
  steps_.push_back({std::move(change), hand});
  ++at_;
  ended_ = false;
  if (steps_.size() <= kSteps) return;
  states_.pop_front(), steps_.pop_front();
  --at_;
}

void UndoHistory::end_step() { ended_ = true; }

const WorkspaceState& UndoHistory::undo() {
  ended_ = true;
  return states_[--at_];
}

const WorkspaceState& UndoHistory::redo() {
  ended_ = true;
  return states_[++at_];
}

std::set<int> UndoHistory::unreachable_runs() const {
  std::set<int> runs = states_.front().removed;
  for (const WorkspaceState& state : states_) {
    std::erase_if(runs, [&](int id) { return !state.removed.contains(id); });
  }
  return runs;
}

void UndoHistory::forget_runs(const std::set<int>& runs) {
  for (WorkspaceState& state : states_) {
    for (const int id : runs) state.removed.erase(id);
  }
}

void UndoHistory::amend(const std::function<void(WorkspaceState&)>& change) {
  for (WorkspaceState& state : states_) change(state);
}

}  // namespace kvscope::app
