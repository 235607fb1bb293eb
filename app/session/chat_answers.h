#pragma once
// The answers of the chat: the run that makes each, the turns as they were asked, and the turns that the answers become.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/session/next_run.h"
#include "app/session/runs.h"

namespace kvscope::app {

struct ChatAnswer {
  int run = 0;                     // id; 0: none
  bool coming = false;             // that run goes on
  std::vector<ChatMessage> asked;  // the chat when it began; ends with the answer so far where the run goes on from it
  std::string so_far;              // what the answer began with before that run
  int tokens_before = 0;           // of that
  std::string text;                // the whole answer, as the chat was given it

  bool goes_on() const { return !asked.empty() && asked.back().role == "assistant"; }
};

/// Earlier states of the chat are kept with what came of them: the answer and its run belong to the step that asked.
struct ChatListener {
  using Shown = std::pair<int, int>;  // ids of A and B
  std::function<void(const ChatAnswer&, Shown before, Shown after)> on_place;
  std::function<void(const ChatAnswer&, const std::vector<ChatMessage>& answered)> on_answer;
};

class ChatAnswers {
 public:
  ChatAnswers(NextRun& next_run, Runs& runs) : next_run_(next_run), runs_(runs) {}

  /// The run that answers the conversation's last turn, or has answered it; nullptr if none does.
  const RunEntry* run() const;
  /// The whole of that answer, also where the run only goes on from another one's.
  std::string answer() const;
  int tokens_before() const;  // of that answer, which other runs made
  const ChatAnswer* on_show() const;
  /// The answer of a run of the list; of run() the whole of it.
  std::string answer_of(const RunEntry& entry) const;
  /// The one that was begun last.
  const ChatAnswer& last() const { return last_; }

  /// Of the session before: the run that answered the chat's last turn, or was about to if it is A.
  void take_up();
  /// Called as answers come; an empty one ends that.
  void listen(ChatListener listener) { listener_ = std::move(listener); }
  /// The run that was begun last answers the last turn.
  void begin(std::string so_far, int tokens_before);
  /// The list's newest run may have become A.
  void take_place(ChatListener::Shown before);
  /// No run goes on any more.
  void take_answer();

 private:
  /// Whether this run is the answer to the chat's last turn; then the turn is its, as far as it came.
  bool take_up(const RunEntry& entry);

  NextRun& next_run_;
  Runs& runs_;
  ChatAnswer last_;
  std::vector<ChatAnswer> earlier_;  // an undo shows them again; oldest first
  ChatListener listener_;
};

}  // namespace kvscope::app
