#include "app/window/run_row.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>  // after imgui.h, which it needs but does not include

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "app/window/panel.h"
#include "engine/core/record/command_line.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/core/support/utf8_prefix.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"
#include "views/widgets/text_field.h"

namespace kvscope::app {

/// The name in its row while it is written.
struct NameEditor {
  NameEditor(const views::ViewServices& services, int run_id, const std::string& name)
      : run(run_id), editor(services, views::TextField::Lines::one) {
    editor.set_text(name);
  }
  int run;
  views::TextField editor;
  bool had_keys = false;
};

namespace {

constexpr std::size_t kExcerpt = 80;  // bytes

std::string detail_of(const RunRecord& run) {
  std::string text =
      std::to_string(run.prompt_len) + " + " + std::to_string(std::max(0, run.n_tokens() - run.prompt_len)) + " tokens";
  if (run.status == RunStatus::complete && run.timings.decode_s > 0) {
    text += ", " + rate_text(run.timings.decode_steps / run.timings.decode_s);
  } else if (run.status == RunStatus::running) {
    text += ", running";
  }
  return text;
}

/// In the words of the chat.
std::string status_word(const RunRecord& run) {
  if (run.status != RunStatus::cancelled) return std::string(to_string(run.status));
  return run.message.empty() ? "stopped" : "cut off";
}

/// State of a letter of a run. behind: the run is B, and a preview of A is shown in its place.
enum class Slot { off, on, behind };

std::string slot_hint(Slot slot, bool is_a) {
  if (is_a) return slot == Slot::on ? "This is A" : "Show this run as A";
  if (slot == Slot::behind) return "This is B, hidden by the preview of A. Click to show it again.";
  return slot == Slot::on ? "This is B. Click to clear." : "Show this run as B, next to A";
}

// A pill with the letter: filled where the run is on show in that place, a click puts it there.
void slot_button(Panel& panel, const char* letter, Slot slot, int run_id, bool is_a) {
  const auto& palette = panel.theme().palette;
  const bool on = slot == Slot::on;
  views::ButtonColours colours = on ? views::accent_button(panel.theme()) : views::plain_button(panel.theme());
  if (!on) colours.ink = slot == Slot::behind ? palette.accent : palette.muted;
  ImGui::PushID(letter);
  // A run beside itself shows nothing.
  const bool itself = !is_a && panel.session.runs().a() && panel.session.runs().a()->id == run_id;
  bool pressed = false;
  {
    const views::ButtonStyle style(colours);
    ImGui::BeginDisabled(itself);
    pressed = ImGui::Button(letter, {panel.px(26), panel.px(24)});
    ImGui::EndDisabled();
  }
  if (itself) tooltip(panel, "This is A. X swaps A and B.");
  if (pressed) {
    const int a = panel.session.runs().a_id(), b = panel.session.runs().b_id();
    if (is_a) {
      panel.run("run.compare", {{"a", run_id}, {"b", run_id == b ? 0 : b}});
    } else {
      panel.run("run.compare", {{"a", a}, {"b", on ? 0 : run_id}});
    }
  }
  ImGui::PopID();
  const std::string hint = slot_hint(slot, is_a);
  panel.services.items->add_text("run." + std::to_string(run_id) + (is_a ? ".a" : ".b"), views::last_item(), hint);
  tooltip(panel, hint);
}

// The beginning of the prompt in one line.
std::string excerpt(const RunRecord& run) {
  std::string text(utf8_prefix(run.prompt_text, kExcerpt));
  for (char& c : text) c = c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
  return text;
}

std::string numbers_of(const RunSummary& summary, const RunRecord& run) {
  std::string text;
  const bool answers = run.n_tokens() > run.prompt_len;  // else it is that of the text
  if (std::isfinite(summary.nll)) text += (answers ? "answer NLL " : "NLL ") + fixed_text(summary.nll, 3) + ", ";
  if (summary.measures.oracle.n > 0) text += "recall " + fixed_text(summary.measures.oracle.recall, 3) + " (own), ";
  return text;
}

/// What the numbers of the row are.
std::string definitions_of(const RunSummary& summary) {
  std::string text =
      "\nNLL: mean over the answer's tokens, or over the whole text if there is no answer; nats per token.";
  const OracleMean& mean = summary.measures.oracle;
  if (mean.n == 0) return text;
  return text + "\nR" + recall_label(OracleOf::own, mean).substr(1) + ": " + std::string(kRecallDefinition) + ". " +
         std::to_string(mean.n) + " pairs; chance " + fixed_text(mean.chance, 3) + ", recall above chance " +
         fixed_text(mean.above_chance(), 3) + ".";
}

void draw_run_menu(Panel& panel, const RunEntry& entry) {
  const nlohmann::json id = {{"id", entry.id}};
  const auto choice = [&](const char* label, const char* command, const char* item) {
    if (ImGui::MenuItem(label)) panel.run(command, id);
    panel.item("run." + std::to_string(entry.id) + item);
  };
  std::string name = entry.name;
  ImGui::SetNextItemWidth(panel.px(200));
  if (ImGui::InputTextWithHint("##name", "Name of this run", &name))
    panel.run("run.rename", {{"id", entry.id}, {"name", name}});
  panel.item("run." + std::to_string(entry.id) + ".rename");
  const bool has_command = kvscope::has_command(*entry.run);
  ImGui::BeginDisabled(!has_command);
  choice("Copy as command", "run.copy_command", ".copy");
  ImGui::EndDisabled();
  if (!has_command)
    tooltip(panel, "The trace does not record the command, or the run has too many tokens for one line.");
  choice("Save as trace ...", "trace.save", ".save");
  choice("Remove from the list", "run.remove", ".remove");
}

/// In the place of the row's first line; Enter, Esc or a click elsewhere ends it.
void draw_name_field(Panel& panel, const RunEntry& entry, float width) {
  if (!panel.name_editor || panel.name_editor->run != entry.id) {
    panel.name_editor = std::make_shared<NameEditor>(panel.services, entry.id, entry.name);
    ImGui::SetScrollHereY();
  }
  NameEditor& name = *panel.name_editor;
  if (name.editor.draw(
          {.item = "run.name_field", .size = {width, 0}, .hint = "Name of this run", .focus = !name.had_keys}))
    panel.run("run.rename", {{"id", entry.id}, {"name", name.editor.text()}});
  if (name.had_keys && !name.editor.focused()) panel.ui.renaming = 0;
  name.had_keys = name.had_keys || name.editor.focused();
  if (panel.ui.renaming == 0) panel.name_editor.reset();
}

void draw_menu_button(Panel& panel, const RunEntry& entry) {
  ImGui::SameLine(views::right_edge() - panel.px(26));
  ImGui::PushStyleColor(ImGuiCol_Button, IM_COL32(0, 0, 0, 0));
  if (ImGui::Button("...", {panel.px(26), panel.px(24)})) ImGui::OpenPopup("run_menu");
  ImGui::PopStyleColor();
  panel.item("run." + std::to_string(entry.id) + ".menu");
  anchor_popup(panel.px(140));
  const PopupStyle style(panel);
  if (!ImGui::BeginPopup("run_menu")) return;
  draw_run_menu(panel, entry);
  ImGui::EndPopup();
}

}  // namespace

void draw_run_row(Panel& panel, const RunEntry& entry, const views::ListedRun& listed) {
  const auto& palette = panel.theme().palette;
  const RunRecord& run = *entry.run;
  const std::string item = "run." + std::to_string(entry.id);
  ImGui::PushID(entry.id);
  const bool is_b = panel.session.runs().b() == &entry, hidden = panel.session.preview().shown();
  slot_button(panel, "A", panel.session.runs().a() == &entry ? Slot::on : Slot::off, entry.id, true);
  ImGui::SameLine(0, panel.px(3));
  slot_button(panel, "B", !is_b ? Slot::off : hidden ? Slot::behind : Slot::on, entry.id, false);
  ImGui::SameLine(0, panel.px(10));
  ImGui::BeginGroup();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - panel.px(3));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float right = views::right_edge_on_screen() - panel.px(30);
  ImGui::PushClipRect(at, {right, at.y + panel.px(60)}, true);
  const std::string& name = listed.title;
  if (panel.ui.renaming == entry.id) {
    draw_name_field(panel, entry, right - at.x);
  } else {
    // Both ends: runs of one study differ in their last parameter.
    views::text_in(palette.text, views::cut_middle_to(std::to_string(entry.id) + "   " + name, right - at.x));
    panel.services.items->add_text(item + ".name", views::last_item(), name);
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(0)) panel.run("run.rename", {{"id", entry.id}});
  }
  const auto& notes = panel.session.selection().run_notes;
  const auto note = notes.find(entry.id);
  if (ImGui::IsItemHovered())
    tooltip(panel, name + "\n" + run.policy.brief() + (listed.hint.empty() ? "" : "\n" + listed.hint) +
                       (run.message.empty() ? "" : "\n" + run.message) +
                       (note == notes.end() ? "" : "\n\n" + note->second));
  const views::FontScope small(panel.theme().fonts.small);
  const float closer = panel.px(5);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - closer);
  const std::string prompt = excerpt(run);
  views::text_in(palette.faint, views::cut_to(prompt, right - at.x));
  panel.services.items->add_text(item + ".prompt", views::last_item(), escape_for_terminal(prompt, 2 * kExcerpt));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - closer);
  std::string detail = detail_of(run);
  const RunSummary* summary = panel.session.summaries().of(entry);
  if (summary != nullptr) detail = numbers_of(*summary, run) + detail;
  if (run.status != RunStatus::complete && run.status != RunStatus::running)
    detail = status_word(run) + ", " + detail;  // first: the line may be cut
  views::text_in(run.status == RunStatus::failed ? palette.bad : palette.muted, views::cut_to(detail, right - at.x));
  panel.services.items->add_text(item + ".detail", views::last_item(), detail);
  tooltip(panel, detail + (summary != nullptr ? definitions_of(*summary) : ""));
  ImGui::PopClipRect();
  ImGui::EndGroup();
  panel.item(item + ".row");
  if (ImGui::IsItemClicked() && ImGui::GetIO().KeyCtrl) panel.run("runs.choose", {{"id", entry.id}});
  if (std::ranges::count(panel.session.selection().runs, entry.id) > 0) {
    const float left = ImGui::GetWindowPos().x + panel.px(6), bottom = ImGui::GetItemRectMax().y;
    ImGui::GetWindowDrawList()->AddRectFilled({left, at.y}, {left + panel.px(3), bottom},
                                              views::to_imgui(palette.accent));
  }
  draw_menu_button(panel, entry);
  ImGui::PopID();
}

}  // namespace kvscope::app
