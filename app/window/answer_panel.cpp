// What the runs on show have answered, as text to read and copy.

#include <imgui.h>

#include "app/session/answer.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kAnswerHeight = 108;

void draw_answer(Panel& panel, const RunEntry& entry, const char* letter, const char* item, views::TextEditor& editor) {
  const auto& palette = panel.theme().palette;
  const views::FontScope font(panel.theme().fonts.small);
  const std::string reason = std::string(letter) + stop_reason(*entry.run);
  ImGui::AlignTextToFramePadding();
  views::text_in(palette.muted, reason);
  panel.services.items->add_text(std::string(item) + ".reason", views::last_item(), reason);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize("Copy").x -
                  2 * ImGui::GetStyle().FramePadding.x);
  ImGui::PushID(item);
  ImGui::BeginDisabled(editor.text().empty());
  if (ImGui::SmallButton("Copy")) panel.run("answer.copy", {{"id", entry.id}});
  ImGui::EndDisabled();
  ImGui::PopID();
  panel.item(std::string(item) + ".copy");
  editor.set_text(answer_text(*entry.run));
  const bool running = entry.run->status == RunStatus::running;
  editor.draw({.item = item,
               .size = {-1, panel.px(kAnswerHeight)},
               .hint = running ? "The prompt is being read." : "No text.",
               .read_only = true,
               .follow = running});
}

}  // namespace

void draw_answer_panel(Panel& panel) {
  const RunEntry *a = panel.session.a(), *b = panel.session.b();
  // A chat shows its own answer among its turns.
  if (a && !b && !panel.session.parameters().raw && a == panel.session.chat_run()) return;
  if (!a || a->run->prompt_len == 0) return;
  if (!panel.prompt_editors) return;
  section(panel, "Answer");
  draw_answer(panel, *a, b ? "A: " : "", "answer.a", panel.prompt_editors->a);
  if (b) draw_answer(panel, *b, "B: ", "answer.b", panel.prompt_editors->b);
}

}  // namespace kvscope::app
