#pragma once
// Undo over session and window: watches the one state, and puts it back.
//
// Nothing that changes the state has to know of it. The state is looked at around every command and after every frame;
// where it differs from what it was, that is a step.

#include <functional>

#include "app/session/chat_answers.h"
#include "app/workspace/undo_history.h"

namespace kvscope::app {

class Undo {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  /// They must outlive it.
  Undo(Session& session, Layout& layout, Appearance& appearance, Clock clock = std::chrono::steady_clock::now);
  ~Undo();
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  /// What has changed since was done by the person.
  void observe();
  /// What has changed since came by itself (a model was opened, a trace has been read): a step only if there are steps
  /// already and more than the selection is another, or another study is open.
  void observe_automatic();
  /// Changes the selection now and in every state: no step leads to before it.
  void amend_selection(const std::function<void(views::Selection&)>& change);
  /// The history begins here.
  void start();
  /// From the press of a mouse button to its release: one step.
  void set_gesture(std::uint64_t gesture) { gesture_ = gesture; }
  /// Words for the step that is being made.
  void name_step(std::string label) { label_ = std::move(label); }

  bool can_undo() const { return history_.can_undo(); }
  bool can_redo() const { return history_.can_redo(); }
  void undo();
  void redo();
  const UndoHistory& history() const { return history_; }

  /// Called when the steps are others.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  WorkspaceState capture() const;
  void step(WorkspaceState state);
  // The run that answers a chat has taken its place, has answered: that is of the step that asked, not one of its own, and
  // whoever has undone that meanwhile finds it when he redoes it.
  void take_place(const ChatAnswer& answer, ChatListener::Shown before, ChatListener::Shown after);
  void take_answer(const ChatAnswer& answer, const std::vector<ChatMessage>& answered);
  void apply(const WorkspaceState& state);
  void changed();

  Session& session_;
  Layout& layout_;
  Appearance& appearance_;
  Clock clock_;
  UndoHistory history_;
  std::uint64_t gesture_ = 0;
  std::string label_;
  std::function<void()> changed_;
};

}  // namespace kvscope::app
