// The pins of the text on show, and the notes: of the run, and of each pin.

#include <imgui.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/trace/trace_notes.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/pin_list.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/text_field.h"

namespace kvscope::app {

/// Of the run, and of each letter.
struct NotesEditors {
  explicit NotesEditors(const views::ViewServices& services) : run(services) {
    for (int letter = 0; letter < kMaxPins; ++letter) pins.emplace_back(services);
  }
  views::TextField run;
  std::deque<views::TextField> pins;
  bool entered = false;  // the run's note has had the keyboard since the popup opened
};

namespace {

constexpr float kLeastHeight = 38, kMostHeight = 140;  // of a note
constexpr const char* kItems[kMaxPins] = {"notes.a", "notes.b", "notes.c", "notes.d",
                                          "notes.e", "notes.f", "notes.g", "notes.h"};

/// As high as its text, within limits. True: the user changed the text.
bool draw_note(Panel& panel, views::TextField& field, const char* item, const char* hint, bool focus = false) {
  const float height = field.height_of(ImGui::GetContentRegionAvail().x);
  return field.draw({.item = item,
                     .size = {-1, std::clamp(height, panel.px(kLeastHeight), panel.px(kMostHeight))},
                     .hint = hint,
                     .focus = focus});
}

/// Whether the notes of A are beside a trace, or kept with the workspace.
std::string place_of(const RunEntry& entry) {
  if (entry.trace_path.empty()) return "Saved in the workspace, and next to the trace once you save this run as one.";
  return "Saved in " + notes_file(entry.trace_path).string() +
         ", or in the workspace while that file cannot be read or written.";
}

void draw_run_note(Panel& panel, const RunEntry& entry) {
  const auto& palette = panel.theme().palette;
  draw_text(panel.theme().fonts.bold, palette.text,
            "Run " + std::to_string(entry.id) + (entry.name.empty() ? "" : ": " + entry.name));
  views::TextField& editor = panel.notes_editors->run;
  const auto& notes = panel.session.selection().run_notes;
  const auto note = notes.find(entry.id);
  editor.set_text(note == notes.end() ? "" : note->second);
  bool& entered = panel.notes_editors->entered;
  if (draw_note(panel, editor, "notes.run", "Notes on this run", !entered))
    panel.run("run.note", {{"id", entry.id}, {"text", editor.text()}});
  entered = entered || editor.focused();
  const views::FontScope small(panel.theme().fonts.small);
  const std::string place = place_of(entry);
  views::wrapped_text_in(palette.muted, place);
  panel.services.items->add_text("notes.place", views::last_item(), place);
}

/// Returns whether the pin is to be removed.
bool draw_pin_buttons(Panel& panel, int pin, bool here) {
  const std::string letter = pin_letter(pin);
  ImGui::SameLine(views::right_edge() - panel.px(146));
  ImGui::BeginDisabled(!here);
  const bool clicked = ImGui::SmallButton("Go there");
  ImGui::EndDisabled();
  panel.item("notes.go." + letter);
  tooltip(panel,
          here ? "Go to this layer, head and token" : "Not in the shown run. The line on the left gives the reason.");
  if (clicked) {
    panel.run("pin.go", {{"letter", letter}});
    panel.ui.notes = false;
  }
  ImGui::SameLine();
  const bool removed = ImGui::SmallButton("Remove");
  panel.item("notes.remove." + letter);
  return removed;
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
  views::TextField& editor = panel.notes_editors->pins[static_cast<std::size_t>(placed.pin.letter)];
  editor.set_text(placed.pin.note);
  const bool removed = draw_pin_buttons(panel, placed.pin.letter, here);
  if (draw_note(panel, editor, kItems[placed.pin.letter], "Note"))
    panel.run("pin.note", {{"letter", letter}, {"text", editor.text()}});
  if (removed) panel.run("pin.clear", {{"letter", letter}});
  ImGui::PopID();
}

}  // namespace

void draw_notes(Panel& panel) {
  const RunEntry* entry = panel.session.runs().a();
  if (!panel.ui.notes || !entry || !panel.session.runs().shown_a()) {
    panel.ui.notes = false;
    if (panel.notes_editors) panel.notes_editors->entered = false;
    return;
  }
  if (!panel.notes_editors) panel.notes_editors = std::make_shared<NotesEditors>(panel.services);
  if (begin_popup(panel, "notes", 620, 520)) {
    const std::shared_ptr<const RunRecord> run = panel.session.runs().shown_a()->run;
    const auto pins = placed_pins(panel.session.selection().pins, *run);
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Pins and notes");
    ImGui::SameLine(views::right_edge() - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.notes = false;
    panel.item("notes.close");
    ImGui::BeginChild("list");
    draw_run_note(panel, *entry);
    for (const PlacedPin& placed : pins) draw_pin(panel, *run, placed);
    if (pins.empty()) {
      views::wrapped_text_in(panel.theme().palette.muted,
                             "No pins yet. Click a token and press P. Each text can have eight pins, a to h.");
      panel.services.items->add("notes.none", views::last_item());
    }
    ImGui::EndChild();
  }
  ImGui::End();
}

}  // namespace kvscope::app
