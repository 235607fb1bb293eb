// The pins of the text on show, and the notes: of the run, and of each pin.

#include <imgui.h>
#include <imgui_internal.h>  // ClearActiveID

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/trace/trace_notes.h"
#include "views/text/text_editor.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/pin_list.h"
#include "views/widgets/pin_marks.h"

namespace kvscope::app {

/// One of which keys are at a time, in the order of Tab.
struct NotesStop {
  enum class Kind : std::uint8_t { run_note, pin_note, go, remove, close };
  Kind kind = Kind::run_note;
  int letter = -1;  // of a pin
  bool operator==(const NotesStop&) const = default;
  bool is_button() const { return kind != Kind::run_note && kind != Kind::pin_note; }
};

/// Which hold caret, selection and undo from frame to frame: of the run, and of each letter.
struct NotesEditors {
  explicit NotesEditors(const views::ViewServices& services) : run(services) {
    for (int letter = 0; letter < kMaxPins; ++letter) pins.emplace_back(services);
  }
  views::TextEditor run;
  std::deque<views::TextEditor> pins;
  int frames = 0;                       // that it is open
  NotesStop at;                         // has the keys
  bool moved = false, pressed = false;  // in this frame: the keys came to it, they press it
  std::deque<views::TextEvent> typed;   // and not yet given to the one it is for
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

using Stop = NotesStop;

std::vector<Stop> stops_of(const std::vector<PlacedPin>& pins) {
  std::vector<Stop> stops(1);  // of the run
  for (const PlacedPin& placed : pins) {
    const int letter = placed.pin.letter;
    stops.push_back({Stop::Kind::pin_note, letter});
    if (placed.place == PinPlace::here) stops.push_back({Stop::Kind::go, letter});
    stops.push_back({Stop::Kind::remove, letter});
  }
  stops.push_back({Stop::Kind::close, -1});
  return stops;
}

void move_to(NotesEditors& notes, const Stop& stop) {
  ImGui::ClearActiveID();  // an editor that had the keys releases them before another is drawn
  notes.at = stop;
  notes.moved = true, notes.pressed = false;
}

void step(NotesEditors& notes, const std::vector<Stop>& stops, bool back) {
  const std::size_t n = stops.size();
  const auto now = std::ranges::find(stops, notes.at);
  const std::size_t at = now == stops.end() ? n - 1 : static_cast<std::size_t>(now - stops.begin());
  move_to(notes, stops[(at + (back ? n - 1 : 1)) % n]);
}

/// The keys stay at a button when theirs is gone: what is typed on, a blank say, comes into no note.
void leave_removed(NotesEditors& notes, const std::vector<Stop>& stops, int letter) {
  const auto next = std::ranges::find_if(
      stops, [letter](const Stop& stop) { return stop.kind == Stop::Kind::remove && stop.letter > letter; });
  move_to(notes, next == stops.end() ? stops.back() : *next);
}

/// Shares out what was typed, in order: to the editor that has the keys up to the next step, which waits for the frame
/// after it; at a button Enter and space press.
void take_keys(const views::ViewServices& services, NotesEditors& notes, const std::vector<Stop>& stops) {
  notes.moved = notes.pressed = false;
  if (services.typed == nullptr) return;
  auto& events = services.typed->events;
  notes.typed.insert(notes.typed.end(), events.begin(), events.end());
  events.clear();
  while (!notes.typed.empty() && !notes.moved && !notes.pressed) {
    const views::TextEvent event = notes.typed.front();
    const bool steps = event.key == "tab" || event.key == "f6";
    if (steps && !events.empty()) break;
    notes.typed.pop_front();
    if (steps) {
      step(notes, stops, event.shift);
    } else if (notes.at.is_button()) {
      notes.pressed = event.key == "enter" || event.key == "space";
    } else {
      events.push_back(event);
    }
  }
  if (!notes.typed.empty() && services.wake) services.wake();
}

/// After the item at that stop was drawn: into sight when the keys come to it.
void reveal_stop(const NotesEditors& notes, const Stop& stop) {
  if (!notes.moved || notes.at != stop) return;
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  if (ImGui::GetItemRectMin().y < top || ImGui::GetItemRectMax().y > bottom) ImGui::SetScrollHereY();
}

/// After a button was drawn: framed while the keys are at it. True: they press it.
bool is_pressed_by_keys(Panel& panel, const Stop& stop) {
  const NotesEditors& notes = *panel.notes_editors;
  if (notes.at != stop) return false;
  ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                      views::to_imgui(panel.theme().palette.accent), ImGui::GetStyle().FrameRounding,
                                      panel.px(2));
  panel.item("notes.keyed");
  reveal_stop(notes, stop);
  return notes.pressed;
}

/// An editor at that stop; true: a hand changed the text.
bool draw_editor(NotesEditors& notes, views::TextEditor& editor, const Stop& stop, const char* item, const char* hint) {
  const bool takes_keys = notes.moved && notes.at == stop;
  const bool changed = editor.draw({.item = item, .size = size_of(editor), .hint = hint, .focus = takes_keys});
  reveal_stop(notes, stop);
  if (editor.focused()) notes.at = stop;  // also by a click
  return changed;
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
  views::TextEditor& editor = panel.notes_editors->run;
  const auto& notes = panel.session.selection().run_notes;
  const auto note = notes.find(entry.id);
  editor.set_text(note == notes.end() ? "" : note->second);
  if (draw_editor(*panel.notes_editors, editor, {}, "notes.run", "Notes on this run"))
    panel.run("run.note", {{"id", entry.id}, {"text", editor.text()}});
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
  if (is_pressed_by_keys(panel, {Stop::Kind::go, pin}) || clicked) {
    panel.run("pin.go", {{"letter", letter}});
    panel.ui.notes = false;
  }
  ImGui::SameLine();
  const bool removed = ImGui::SmallButton("Remove");
  panel.item("notes.remove." + letter);
  return is_pressed_by_keys(panel, {Stop::Kind::remove, pin}) || removed;
}

void draw_pin(Panel& panel, const RunRecord& run, const std::vector<Stop>& stops, const PlacedPin& placed) {
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
  views::TextEditor& editor = panel.notes_editors->pins[static_cast<std::size_t>(placed.pin.letter)];
  editor.set_text(placed.pin.note);
  const Stop note{Stop::Kind::pin_note, placed.pin.letter};
  const bool removed = draw_pin_buttons(panel, placed.pin.letter, here);
  if (draw_editor(*panel.notes_editors, editor, note, kItems[placed.pin.letter], "Note"))
    panel.run("pin.note", {{"letter", letter}, {"text", editor.text()}});
  if (removed) {
    panel.run("pin.clear", {{"letter", letter}});
    leave_removed(*panel.notes_editors, stops, placed.pin.letter);
  }
  ImGui::PopID();
}

/// With what has the keys, and nothing that was typed to it.
void forget_keys(NotesEditors& notes) {
  notes.frames = 0;
  notes.at = {};
  notes.moved = notes.pressed = false;
  notes.typed.clear();
}

/// The first frame's keys are not meant for it: the P that opens it would be typed.
void begin_keys(Panel& panel, const std::vector<Stop>& stops) {
  NotesEditors& notes = *panel.notes_editors;
  if (++notes.frames == 1) {
    if (panel.services.typed != nullptr) panel.services.typed->events.clear();
    return;
  }
  take_keys(panel.services, notes, stops);
  notes.moved = notes.moved || notes.frames == 2;
}

}  // namespace

void draw_notes(Panel& panel) {
  const RunEntry* entry = panel.session.runs().a();
  if (!panel.ui.notes || !entry || !panel.session.runs().shown_a()) {
    panel.ui.notes = false;
    if (panel.notes_editors) forget_keys(*panel.notes_editors);
    return;
  }
  if (!panel.notes_editors) panel.notes_editors = std::make_shared<NotesEditors>(panel.services);
  if (begin_popup(panel, "notes", 620, 520)) {
    const std::shared_ptr<const RunRecord> run = panel.session.runs().shown_a()->run;
    const auto pins = placed_pins(panel.session.selection().pins, *run);
    const std::vector<Stop> stops = stops_of(pins);
    begin_keys(panel, stops);
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Pins and notes");
    ImGui::SameLine(views::right_edge() - panel.px(70));
    const bool closed = ImGui::Button("Close", {panel.px(70), 0});
    panel.item("notes.close");
    if (is_pressed_by_keys(panel, stops.back()) || closed) panel.ui.notes = false;
    ImGui::BeginChild("list");
    draw_run_note(panel, *entry);
    for (const PlacedPin& placed : pins) draw_pin(panel, *run, stops, placed);
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
