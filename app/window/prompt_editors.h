#pragma once
// The editors of the left panel, which hold caret, selection and undo from frame to frame.

#include <deque>
#include <memory>

#include "engine/core/record/run_record.h"
#include "views/widgets/text_field.h"

namespace kvscope::app {

struct Panel;

struct PromptEditors {
  explicit PromptEditors(const views::ViewServices& services)
      : prompt(services), system(services), stop(services), answer(services) {}

  views::TextField prompt, system, stop;
  views::TextField answer;
  int answer_of = 0;                          // 1: B's
  std::shared_ptr<const RunRecord> answered;  // the run whose answer is shown there
  std::deque<views::TextField> turns;         // of the chat; a deque does not move them
  int asked_frames = 0;                       // in which the prompt was to have the keyboard, and had it not yet
  bool stop_focused = false;                  // what is typed there is not tidied up under the hand
};

/// The conversation: its system prompt and turns, the answer live.
void draw_conversation(Panel& panel);
/// Of the draft: all the room that it shares with the turns, until there is one.
float chat_draft_height(const Panel& panel);
/// In the panel's heading, where no answer is too long for it; its right edge there.
void draw_copy_last_answer(Panel& panel, float right);
/// What one does with it: send, stop, continue, begin anew; whether the model thinks.
void draw_chat_buttons(Panel& panel);

}  // namespace kvscope::app
