// The prompt: type it, or take a sample.

#include <imgui.h>
#include <imgui_stdlib.h>  // after imgui.h: it has no includes of its own

#include <string>
#include <utility>

#include "app/process/paths.h"
#include "app/window/panel.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kPromptHeight = 200;
constexpr std::size_t kShownBytes = 64 << 10;  // wrapping megabytes of text in every frame would cost the frame

// "1-fact-recall.txt" -> "fact recall"
std::string sample_title(const std::filesystem::path& path) {
  std::string title = path.stem().string();
  if (const auto dash = title.find('-'); dash != std::string::npos) title.erase(0, dash + 1);
  for (char& c : title) c = c == '-' ? ' ' : c;
  return title;
}

void draw_samples(Panel& panel) {
  // The shipped ones do not change while the program runs.
  static const auto plain = sample_prompts(false), chats = sample_prompts(true);
  const auto& prompts = panel.session.parameters().raw ? plain : chats;
  if (prompts.empty()) return;
  ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(96));
  ImGui::SetNextItemWidth(panel.px(96));
  if (ImGui::BeginCombo("##samples", "Samples", ImGuiComboFlags_HeightLarge)) {
    for (int i = 0; i < static_cast<int>(prompts.size()); ++i) {
      if (ImGui::Selectable(sample_title(prompts[i]).c_str())) panel.run("prompt.sample", {{"index", i}});
    }
    ImGui::EndCombo();
  }
  panel.item("prompt.samples");
}

// InputTextMultiline of ImGui 1.86 does not wrap. So the prompt is shown wrapped, and a click turns it into the editor.
void draw_wrapped(Panel& panel, const std::string& text, bool& editing) {
  const auto& palette = panel.theme().palette;
  ImGui::PushStyleColor(ImGuiCol_ChildBg, views::to_imgui(palette.raised));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImGui::GetStyle().FramePadding);
  ImGui::BeginChild("prompt_text", {-1, panel.px(kPromptHeight)}, false, ImGuiWindowFlags_AlwaysUseWindowPadding);
  if (text.empty()) {
    views::text_in(palette.faint, "Type a prompt, or take a sample.");
  } else {
    views::wrapped_text_in(palette.text, std::string_view(text).substr(0, kShownBytes));
  }
  if (ImGui::IsWindowHovered()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
    if (ImGui::IsMouseReleased(0)) editing = true;
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  panel.item("prompt.text");
}

void draw_editor(Panel& panel, std::string text, bool focus, bool& editing) {
  if (focus) ImGui::SetKeyboardFocusHere();
  const bool edited =
      ImGui::InputTextMultiline("##prompt", &text, {-1, panel.px(kPromptHeight)}, ImGuiInputTextFlags_AllowTabInput);
  // Escape leaves the field. ImGui takes back all that was typed then; a prompt is too long to lose by a key.
  if (edited && !ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape))) {
    panel.session.next_run().set_prompt(text);
  }
  if (ImGui::IsItemDeactivated()) editing = false;
  panel.item("prompt.text");
}

/// How the model gets the text: as it stands, or as what a user says to it.
void draw_chat_choice(Panel& panel) {
  if (!panel.session.next_run().has_chat()) return;
  bool chat = !panel.session.parameters().raw;
  if (ImGui::Checkbox("Chat", &chat)) panel.run("prompt.set", {{"chat", chat}});
  panel.item("prompt.chat");
  tooltip(
      panel,
      "the prompt is a user's turn in the model's own chat template; else the model goes on with the text as it is");
  ImGui::SameLine();
}

void draw_text(Panel& panel) {
  static bool editing = false, was_editing = false;
  const views::FontScope font(panel.theme().fonts.small);
  editing |= std::exchange(panel.ui.focus_prompt, false);
  const bool focus = editing && !was_editing;
  was_editing = editing;
  if (editing) {
    draw_editor(panel, panel.session.parameters().prompt, focus, editing);
  } else {
    draw_wrapped(panel, panel.session.parameters().prompt, editing);
  }
}

}  // namespace

void draw_prompt_panel(Panel& panel) {
  section(panel, "Prompt");
  draw_samples(panel);
  draw_text(panel);
  const auto& palette = panel.theme().palette;
  draw_chat_choice(panel);
  const int n = panel.session.next_run().prompt_tokens();
  std::string note =
      n < 0 ? std::to_string(panel.session.parameters().prompt.size()) + " bytes" : std::to_string(n) + " tokens";
  if (const auto& model = panel.session.engine().model(); model && n >= 0)
    note += " of " + std::to_string(model->max_positions);
  const views::FontScope font(panel.theme().fonts.small);
  ImGui::AlignTextToFramePadding();
  views::text_in(palette.muted, note);

  int max_tokens = panel.session.parameters().max_tokens;
  const float field = panel.px(64);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - field - ImGui::GetStyle().ItemSpacing.x -
                  ImGui::CalcTextSize("answer up to").x);
  views::text_in(palette.muted, "answer up to");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(field);
  if (ImGui::InputInt("##max_tokens", &max_tokens, 0)) panel.session.next_run().set_max_tokens(max_tokens);
  panel.item("prompt.max_tokens");
}

}  // namespace kvscope::app
