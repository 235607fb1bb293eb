#pragma once
// The answer that the chat's last turn gets: the run that makes it, and the turns as they were asked.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/record/chat_message.h"

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

/// Who keeps earlier states of the chat has to know what came of them: the answer and its run belong to the step that asked.
struct ChatListener {
  using Shown = std::pair<int, int>;  // ids of A and B
  std::function<void(const ChatAnswer&, Shown before, Shown after)> on_place;
  std::function<void(const ChatAnswer&, const std::vector<ChatMessage>& answered)> on_answer;
};

}  // namespace kvscope::app
