#pragma once
// The states of the user interface one after the other, and where in them the window is.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>

#include "app/workspace/state_change.h"
#include "app/workspace/workspace_state.h"

namespace kvscope::app {

/// The hand that changed something, as far as steps depend on it.
struct Hand {
  std::chrono::steady_clock::time_point time;
  std::uint64_t gesture = 0;  // one number from press to release of a button: all of it is one step; 0: none is down
};

/// At most kSteps steps, the oldest go first. Time is what the caller says it is.
class UndoHistory {
 public:
  static constexpr std::size_t kSteps = 200;
  /// Changes of one kind that follow each other faster are one step: the keys of a slider, typing.
  static constexpr std::chrono::milliseconds kPause{1000};

  explicit UndoHistory(WorkspaceState first);

  const WorkspaceState& present() const { return states_[at_]; }
  /// Somebody made it so. A step of its own, or more of the last one; what could be redone is gone. `label`: in place of
  /// the words of the difference.
  void change(WorkspaceState state, const Hand& hand, std::string label = "");
  /// It became so by itself: the present is another, no step leads there.
  void absorb(WorkspaceState state) { states_[at_] = std::move(state); }
  /// The next change begins a step.
  void end_step();

  bool can_undo() const { return at_ > 0; }
  bool can_redo() const { return at_ < steps_.size(); }
  /// Only if it can; the new present.
  const WorkspaceState& undo();
  const WorkspaceState& redo();
  /// Of the step that undo() or redo() would go: "budget 25 % to 40 %".
  std::string undo_label() const { return can_undo() ? steps_[at_ - 1].change.label : ""; }
  std::string redo_label() const { return can_redo() ? steps_[at_].change.label : ""; }
  std::size_t steps() const { return steps_.size(); }

  /// Runs that are off the list in every state that is left: nothing leads back to them.
  std::set<int> unreachable_runs() const;
  /// Takes them out of all states.
  void forget_runs(const std::set<int>& runs);
  /// What has come for good, whatever is undone: changes every state.
  void amend(const std::function<void(WorkspaceState&)>& change);

 private:
  struct Step {
    StateChange change;
    Hand hand;  // of its last change
  };
  bool continues(const StateChange& change, const WorkspaceState& state, const Hand& hand) const;

  std::deque<WorkspaceState> states_;  // one more than steps
  std::deque<Step> steps_;             // steps_[i] leads from states_[i] to states_[i + 1]
  std::size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace kvscope::app
