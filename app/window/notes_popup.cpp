// The pins of the text on show, and the notes: of the run, and of each pin.

#include <imgui.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/trace/trace_notes.h"
#include "views/text/text_editor.h"
#include "views/widgets/chrome.h"
#include "views/widgets/pin_list.h"
#include "views/widgets/pin_marks.h"

namespace kvscope::app {

/// Which hold caret, selection and undo from frame to frame: of the run, and of each letter.
struct NotesEditors {
  explicit NotesEditors(const views::ViewServices& services) : run(services) {
    for (int letter = 0; letter < kMaxPins; ++letter) pins.emplace_back(services);
  }
  views::TextEditor run;
  std::deque<views::TextEditor> pins;
  int frames = 0;  // that it is open
};

namespace {

constexpr int kLeastLines = 2, kMostLines = 8;
constexpr const char* kItems[kMaxPins] = {"notes.a", "notes.b", "notes.c", "notes.d",
                                          "notes.e", "notes.f", "notes.g", "notes.h"};

/// As high as its text, within limits.
ImVec2 size_of(const views::TextEditor& editor) {
  const int lines = std::clamp(static_cast<int>(editor.n_lines()), kLeastLines, kMostLines);
  const float line = std::max(editor.line_height(), ImGui::GetTextLineHeight());
  return {-1, static_cast<float>(lines) * line + 2 * ImGui::GetStyle().FramePadding.y + 1};
}

/// Whether the notes of A are beside a trace, or kept with the workspace.
std::string place_of(const RunEntry& entry) {
  if (entry.trace_path.empty()) return "Kept in the workspace; beside the trace, once the run is saved as one.";
  return "Kept in " + notes_file(entry.trace_path).string() +
         ", or in the workspace while that cannot be read or written.";
}

void draw_run_note(Panel& panel, const RunEntry& entry, bool takes_keys) {
  const auto& palette = panel.theme().palette;
  draw_text(panel.theme().fonts.bold, palette.text,
            "Run " + std::to_string(entry.id) + (entry.name.empty() ? "" : ": " + entry.name));
  views::TextEditor& editor = panel.notes_editors->run;
  const auto& notes = panel.session.selection().run_notes;
  const auto note = notes.find(entry.id);
  editor.set_text(note == notes.end() ? "" : note->second);
  if (editor.draw({.item = "notes.run",
                   .size = size_of(editor),
                   .hint = "What is to be remembered of this run",
                   .focus = takes_keys}))
    panel.run("run.note", {{"id", entry.id}, {"text", editor.text()}});
  const views::FontScope small(panel.theme().fonts.small);
  const std::string place = place_of(entry);
  views::wrapped_text_in(palette.muted, place);
  panel.services.items->add_text("notes.place", views::last_item(), place);
}

void draw_pin(Panel& panel, const RunRecord& run, const PlacedPin& placed) {
  const auto& palette = panel.theme().palette;
  const std::string letter = pin_letter(placed.pin.letter);
  ImGui::PushID(placed.pin.letter);
  ImGui::Dummy({0, panel.px(4)});
  views::pin_badge(panel.services, placed.pin.letter);
  ImGui::SameLine(0, panel.px(6));
  const bool here = placed.place == PinPlace::here;
  const std::string line = views::pin_line(run, placed);
  views::text_in(here ? palette.text : palette.muted, line);
  panel.services.items->add_text("notes.line." + letter, views::last_item(), line);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(146));
  ImGui::BeginDisabled(!here);
  if (ImGui::SmallButton("Go there")) {
    panel.run("pin.go", {{"letter", letter}});
    panel.ui.notes = false;
  }
  ImGui::EndDisabled();
  panel.item("notes.go." + letter);
  tooltip(panel, here ? "Moves layer, head and token there" : "It is not in the run on show: the line says why.");
  ImGui::SameLine();
  const bool removed = ImGui::SmallButton("Remove");
  panel.item("notes.remove." + letter);
  views::TextEditor& editor = panel.notes_editors->pins[static_cast<std::size_t>(placed.pin.letter)];
  editor.set_text(placed.pin.note);
  if (editor.draw({.item = kItems[placed.pin.letter], .size = size_of(editor), .hint = "A note"}))
    panel.run("pin.note", {{"letter", letter}, {"text", editor.text()}});
  if (removed) panel.run("pin.clear", {{"letter", letter}});
  ImGui::PopID();
}

}  // namespace

void draw_notes(Panel& panel) {
  const RunEntry* entry = panel.session.a();
  if (!panel.ui.notes || !entry || !panel.session.shown_a()) {
    panel.ui.notes = false;
    if (panel.notes_editors) panel.notes_editors->frames = 0;
    return;
  }
  if (!panel.notes_editors) panel.notes_editors = std::make_shared<NotesEditors>(panel.services);
  if (begin_popup(panel, "notes", 620, 520)) {
    const bool takes_keys = ++panel.notes_editors->frames == 2;  // not in the first: the P that opens it would be typed
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Pins and notes");
    ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.notes = false;
    panel.item("notes.close");
    ImGui::BeginChild("list");
    draw_run_note(panel, *entry, takes_keys);
    const std::shared_ptr<const RunRecord> run = panel.session.shown_a()->run;
    const auto pins = placed_pins(panel.session.selection().pins, *run);
    for (const PlacedPin& placed : pins) draw_pin(panel, *run, placed);
    if (pins.empty()) {
      views::wrapped_text_in(panel.theme().palette.muted,
                             "No pins: click a token and press P. A text has up to eight, a to h.");
      panel.services.items->add("notes.none", views::last_item());
    }
    ImGui::EndChild();
  }
  ImGui::End();
}

}  // namespace kvscope::app
