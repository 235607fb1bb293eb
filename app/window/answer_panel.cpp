// What the runs on show have answered, as text to read and copy.

#include <imgui.h>

#include <algorithm>
#include <array>

#include "app/session/answer.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::app {
namespace {

constexpr float kLeastText = 84;  // height of the text

/// Why it ends, and a button that copies it.
void draw_head(Panel& panel, const RunEntry& entry) {
  const std::string reason = stop_reason(*entry.run);
  ImGui::AlignTextToFramePadding();
  views::text_in(panel.theme().palette.muted, reason);
  panel.services.items->add_text("answer.reason", views::last_item(), reason);
  ImGui::SameLine(views::right_edge() - ImGui::CalcTextSize("Copy").x - 2 * ImGui::GetStyle().FramePadding.x);
  const bool none = entry.run->n_tokens() <= entry.run->prompt_len, running = entry.run->status == RunStatus::running;
  ImGui::BeginDisabled(none);
  if (ImGui::SmallButton("Copy")) panel.run("answer.copy", {{"id", entry.id}});
  ImGui::EndDisabled();
  panel.item("answer.copy");
  tooltip(panel, none      ? "No answer to copy."
                 : running ? "Copy the answer up to here as text"
                           : "Copy this answer as text");
}

}  // namespace

// A chat shows its own answer among its turns.
bool has_answer_panel(const Panel& panel) {
  const RunEntry *a = panel.session.runs().a(), *b = panel.session.runs().b();
  if (!a || a->run->prompt_len == 0) return false;
  return b || panel.session.parameters().raw || a != panel.session.chat().run();
}

void draw_answer_panel(Panel& panel) {
  if (!has_answer_panel(panel) || !panel.prompt_editors) return;
  PromptEditors& editors = *panel.prompt_editors;
  const RunEntry *a = panel.session.runs().a(), *b = panel.session.runs().b();
  section(panel, "Answer");
  const views::FontScope font(panel.theme().fonts.small);
  if (b) {
    static constexpr std::array<std::string_view, 2> kNames = {"A", "B"};
    ImGui::SameLine(0, panel.px(16));
    views::segmented(panel.services, "answer.of", kNames, {}, editors.answer_of);
  }
  const RunEntry& entry = b && editors.answer_of == 1 ? *b : *a;
  draw_head(panel, entry);
  // A record does not change: it is another one when the run has grown.
  if (entry.run != editors.answered)
    editors.answer.set_text(answer_text(*(editors.answered = entry.run), entry.stop()));
  const bool running = entry.run->status == RunStatus::running;
  editors.answer.draw({.item = "answer.text",
                       .size = {-1, std::max(panel.px(kLeastText), ImGui::GetContentRegionAvail().y - 1)},
                       .hint = running ? "Reading the prompt ..." : "No text.",
                       .read_only = true,
                       .follow = running});
}

}  // namespace kvscope::app
