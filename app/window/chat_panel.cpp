// The chat above its draft: system prompt, turns, buttons.

#include <imgui.h>

#include <algorithm>
#include <string>

#include "app/session/answer.h"
#include "app/window/keyboard_focus.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

constexpr float kSystemHeight = 42;
constexpr float kLeastRoom = 140, kMostRoom = 334, kMostDraft = 84;  // of turns and draft; of the draft alone
// Of the window: in one of 720 the policy stays in sight below, and of what a higher one has more the chat takes its part.
constexpr float kRoomShare = 0.25f, kShareOfMore = 0.45f, kLowWindow = 720;

// The same before the first turn, while an answer comes and beside that of another run: what is below does not move.
float chat_room(const Panel& panel) {
  const float height = ImGui::GetIO().DisplaySize.y, low = std::min(height, panel.px(kLowWindow));
  return std::clamp(kRoomShare * low + kShareOfMore * (height - low), panel.px(kLeastRoom), panel.px(kMostRoom));
}

/// The turns and, while a run answers the last one, what there is of its answer.
std::vector<ChatMessage> shown_turns(const Session& session) {
  std::vector<ChatMessage> turns = session.parameters().chat.turns;
  const RunEntry* run = session.chat().run();
  if (!run || run->run->status != RunStatus::running || turns.empty()) return turns;
  if (turns.back().role == "assistant") turns.pop_back();
  turns.push_back({"assistant", session.chat().answer()});
  return turns;
}

float button_width(const char* label) { return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x; }

struct TurnButton {
  const char *label, *command, *tip;
  std::string why_not = {};
};

// At the right of a turn's title.
void draw_turn_button(Panel& panel, int index, const TurnButton& button, const nlohmann::json& arguments) {
  ImGui::SameLine(views::right_edge() - button_width(button.label));
  ImGui::BeginDisabled(!button.why_not.empty());
  if (ImGui::SmallButton(button.label)) panel.run(button.command, arguments);
  ImGui::EndDisabled();
  panel.services.items->add(button.command, index, views::last_item());
  tooltip(panel, button.tip + (button.why_not.empty() ? "" : "\n" + button.why_not));
}

/// The answer that comes is no turn yet: it is its run's.
nlohmann::json answer_of_turn(const Session& session, int index) {
  const bool comes = session.chat().run() && index >= static_cast<int>(session.parameters().chat.turns.size());
  return comes ? nlohmann::json{{"id", session.chat().run()->id}} : nlohmann::json{{"turn", index}};
}

/// The views are of another run than the answer: A was chosen in the list.
void draw_show_run(Panel& panel, const RunEntry& run) {
  ImGui::SameLine();
  if (ImGui::SmallButton("Show it")) panel.run("run.show", {{"id", run.id}});
  panel.item("chat.show_run");
  tooltip(panel, "Show the run that answered here. The views show another run.");
}

void draw_turn_title(Panel& panel, int index, const ChatMessage& turn, bool last) {
  const bool user = turn.role == "user";
  const auto& palette = panel.theme().palette;
  ImGui::AlignTextToFramePadding();
  views::text_in(user ? palette.text : palette.accent, user ? "You" : "Assistant");
  if (const RunEntry* run = panel.session.chat().run(); !user && last && run) {
    ImGui::SameLine();
    const std::string reason = stop_reason(*run->run, panel.session.chat().tokens_before());
    const float copy = button_width("Copy") + panel.px(6);
    views::cut_text_in(panel.services, palette.muted, reason, views::right_edge() - ImGui::GetCursorPosX() - copy);
    panel.services.items->add_text("chat.reason", views::last_item(), reason);
    if (run != panel.session.runs().a()) draw_show_run(panel, *run);
  }
  if (user) {
    draw_turn_button(panel, index,
                     {"Edit", "chat.edit", "Move this turn back to the draft and remove all later turns",
                      panel.session.run_in_progress() ? "A run is in progress. Stop it first." : ""},
                     {{"turn", index}});
  } else {
    draw_turn_button(panel, index,
                     {"Copy", "answer.copy", "Copy this answer as text", turn.content.empty() ? "No tokens yet." : ""},
                     answer_of_turn(panel.session, index));
  }
}

void draw_turns(Panel& panel, const std::vector<ChatMessage>& turns) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  const float room = chat_room(panel) - chat_draft_height(panel) - ImGui::GetStyle().ItemSpacing.y;
  ImGui::BeginChild("turns", {-1, room});
  ImGui::PopStyleVar();
  auto& editors = panel.prompt_editors->turns;
  const bool asked = turns.size() > editors.size();  // shows the answer to a new question
  const bool at_end = asked || ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
  if (editors.size() > turns.size()) forget_framed();
  while (editors.size() > turns.size()) editors.pop_back();
  while (editors.size() < turns.size()) editors.emplace_back(panel.services);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    draw_turn_title(panel, static_cast<int>(i), turns[i], i + 1 == turns.size());
    views::TextField& editor = editors[i];
    editor.set_text(turns[i].content);
    editor.draw({.item = "chat.turn",
                 .size = {-1, editor.height_of(ImGui::GetContentRegionAvail().x)},
                 .hint = "...",
                 .read_only = true});
    panel.services.items->add("chat.turns", static_cast<int>(i), views::last_item());
    ImGui::PopID();
  }
  if (at_end) ImGui::SetScrollHereY(1);
  bring_framed_into_sight();
  ImGui::EndChild();
}

}  // namespace

float chat_draft_height(const Panel& panel) {
  const float room = chat_room(panel);
  return panel.session.parameters().chat.turns.empty() ? room : std::min(panel.px(kMostDraft), 0.4f * room);
}

void draw_copy_last_answer(Panel& panel, float right) {
  const std::vector<ChatMessage> turns = shown_turns(panel.session);
  const auto last =
      std::find_if(turns.rbegin(), turns.rend(), [](const ChatMessage& turn) { return turn.role != "user"; });
  if (last == turns.rend()) return;
  const views::FontScope font(panel.theme().fonts.small);
  const int index = static_cast<int>(turns.rend() - last) - 1;
  const ImGuiStyle& style = ImGui::GetStyle();
  const auto x_of = [&](const char* label) { return right - button_width(label); };
  const float from = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x + style.ItemSpacing.x;
  const char* label = x_of("Copy answer") >= from ? "Copy answer" : "Copy";
  if (x_of(label) < from) return;  // the turn itself has the button too
  ImGui::SameLine(x_of(label));
  ImGui::BeginDisabled(last->content.empty());
  if (ImGui::Button(label)) panel.run("answer.copy", answer_of_turn(panel.session, index));
  ImGui::EndDisabled();
  panel.item("chat.copy_answer");
  tooltip(panel, last->content.empty() ? "The last answer has no tokens yet." : "Copy the last answer as text");
}

void draw_conversation(Panel& panel) {
  const views::FontScope font(panel.theme().fonts.small);
  views::TextField& system = panel.prompt_editors->system;
  system.set_text(panel.session.parameters().chat.system);
  if (system.draw({.item = "chat.system",
                   .size = {-1, panel.px(kSystemHeight)},
                   .hint = "System prompt (blank = model default)"}))
    panel.run("chat.set", {{"system", system.text()}});
  const std::vector<ChatMessage> turns = shown_turns(panel.session);
  if (!turns.empty()) draw_turns(panel, turns);
}

void draw_chat_buttons(Panel& panel) {
  const views::FontScope font(panel.theme().fonts.small);
  if (panel.session.run_in_progress()) {
    command_button(panel, "Stop", "run.cancel");
  } else {
    const bool anew = panel.session.parameters().prompt.empty() && !panel.session.parameters().chat.turns.empty();
    command_button(panel, anew ? "Answer again" : "Send", "run.start");
  }
  // Of a chat that has not begun, A's answer is another one's.
  if (!panel.session.parameters().chat.turns.empty()) {
    ImGui::SameLine();
    command_button(panel, "Continue", "run.continue");
  }
  // Whether it has room is the same for each word that the first button may say.
  const float width = ImGui::CalcTextSize("Answer againContinueNew chat").x + 6 * ImGui::GetStyle().FramePadding.x +
                      2 * ImGui::GetStyle().ItemSpacing.x;
  if (width < ImGui::GetContentRegionAvail().x) ImGui::SameLine();
  command_button(panel, "New chat", "chat.new");
  if (!panel.session.next_run().has_thinking_choice()) return;
  ImGui::SameLine();
  bool thinking = panel.session.parameters().chat.thinking.value_or(true);
  if (ImGui::Checkbox("Thinking", &thinking)) panel.run("chat.set", {{"thinking", thinking}});
  panel.item("chat.thinking");
  tooltip(panel, "Let the model think before it answers (uses its chat template)");
}

}  // namespace kvscope::app
