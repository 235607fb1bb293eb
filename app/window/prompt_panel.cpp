// The prompt: type it, or take a sample.

#include <imgui.h>

#include <string>

#include "app/support/paths.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {
namespace {

constexpr float kPromptHeight = 150;
constexpr int kMostAsked = 8;  // frames

// "1-fact-recall.txt" -> "fact recall"
std::string sample_title(const std::filesystem::path& path) {
  std::string title = path.stem().string();
  if (const auto dash = title.find('-'); dash != std::string::npos) title.erase(0, dash + 1);
  for (char& c : title) c = c == '-' ? ' ' : c;
  return title;
}

void draw_samples(Panel& panel) {
  const auto& prompts = sample_prompts(!panel.session.parameters().raw);
  if (prompts.empty()) return;
  ImGui::SameLine(views::right_edge() - panel.px(96));
  ImGui::SetNextItemWidth(panel.px(96));
  if (ImGui::BeginCombo("##samples", "Samples", ImGuiComboFlags_HeightLarge)) {
    for (int i = 0; i < static_cast<int>(prompts.size()); ++i) {
      if (ImGui::Selectable(sample_title(prompts[i]).c_str())) panel.run("prompt.sample", {{"index", i}});
    }
    ImGui::EndCombo();
  }
  panel.item("prompt.samples");
}

/// How the model gets the text: raw, or as a user turn of its chat template.
void draw_chat_choice(Panel& panel) {
  const std::string refusal = panel.session.next_run().chat_refusal();
  if (!panel.session.next_run().has_chat() && refusal.empty()) return;
  bool chat = !panel.session.parameters().raw;
  ImGui::BeginDisabled(!refusal.empty());
  if (ImGui::Checkbox("Chat", &chat)) panel.run("prompt.set", {{"chat", chat}});
  ImGui::EndDisabled();
  panel.item("prompt.chat");
  tooltip(panel, refusal.empty() ? "On: your text is a turn in the model's chat template. Off: the model continues the "
                                   "raw text."
                                 : "The model's chat template cannot be used.\n" + refusal);
  ImGui::SameLine();
}

// Typing brings it into sight. What is scrolled off takes no focus in ImGui: it is asked again once it is there.
void bring_in_sight(Panel& panel, const views::TextField& editor) {
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  if (ImGui::GetItemRectMin().y < top || ImGui::GetItemRectMax().y > bottom) {
    ImGui::SetScrollHereY();
    views::want_frame();
  }
  int& frames = panel.prompt_editors->asked_frames;
  if (!editor.focused() && ++frames < kMostAsked) return;
  frames = 0;
  panel.ui.focus_prompt = false;
}

void draw_text(Panel& panel) {
  const views::FontScope font(panel.theme().fonts.small);
  views::TextField& editor = panel.prompt_editors->prompt;
  const bool chat = !panel.session.parameters().raw, goes_on = chat && !panel.session.parameters().chat.turns.empty();
  // In a small window the settings below it are to be seen too.
  const float text = std::clamp(0.15f * ImGui::GetIO().DisplaySize.y, panel.px(64), panel.px(kPromptHeight));
  const float height = chat ? chat_draft_height(panel) : text;
  editor.set_text(panel.session.parameters().prompt);  // nothing, while it is what the editor holds
  const bool asked = panel.ui.focus_prompt;
  if (editor.draw({.item = "prompt.text",
                   .size = {-1, height},
                   .hint = goes_on ? "Reply ..." : "Type a prompt or use a sample.",
                   .focus = asked,
                   .tabs = true}))
    panel.run("prompt.set", {{"text", editor.text()}});
  if (asked) bring_in_sight(panel, editor);
  if (editor.right_to_left())
    views::text_in(panel.theme().palette.muted, "Right-to-left text is shown in stored order.");
}

// "629 tokens of 2048", as far as there is room. False: there is no room for an item next to it.
bool draw_length(Panel& panel, float room) {
  const NextRun& next = panel.session.next_run();
  const int n = next.prompt_tokens();
  const auto& model = panel.session.engine().model();
  std::string note = n < 0 ? std::to_string(next.parameters().prompt.size()) + " bytes" : std::to_string(n) + " tokens";
  const std::string of = model && n >= 0 ? " of " + std::to_string(model->max_positions) : "";
  if (ImGui::CalcTextSize((note + of).c_str()).x < room) note += of;
  ImGui::AlignTextToFramePadding();
  views::text_in(model && n > model->max_positions ? panel.theme().palette.bad : panel.theme().palette.muted, note);
  panel.services.items->add_text("prompt.length", views::last_item(), note);
  return ImGui::CalcTextSize(note.c_str()).x < room;
}

}  // namespace

void draw_prompt_panel(Panel& panel) {
  if (!panel.prompt_editors) panel.prompt_editors = std::make_shared<PromptEditors>(panel.services);
  const bool chat = !panel.session.parameters().raw;
  section(panel, chat ? "Chat" : "Prompt");
  if (chat) draw_copy_last_answer(panel, views::right_edge() - panel.px(96 + 8));
  draw_samples(panel);
  if (chat) draw_conversation(panel);
  draw_text(panel);
  if (chat) draw_chat_buttons(panel);
  const auto& palette = panel.theme().palette;
  draw_chat_choice(panel);
  const float field = panel.px(64);
  const views::FontScope font(panel.theme().fonts.small);
  const float right =
      views::right_edge() - field - ImGui::GetStyle().ItemSpacing.x - ImGui::CalcTextSize("max new tokens").x;
  const bool beside = draw_length(panel, right - ImGui::GetCursorPosX() - panel.px(6));

  int max_tokens = panel.session.parameters().max_tokens;
  if (beside) ImGui::SameLine(right);
  if (!beside) ImGui::SetCursorPosX(right), ImGui::AlignTextToFramePadding();
  views::text_in(palette.muted, "max new tokens");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(field);
  if (ImGui::InputInt("##max_tokens", &max_tokens, 0)) panel.session.next_run().set_max_tokens(max_tokens);
  panel.item("prompt.max_tokens");
}

}  // namespace kvscope::app
