#pragma once
// Controls by the keyboard alone. Arrows and space belong to the views until Tab or F6 gives them to the controls; then
// the control that has them is framed, arrows walk, Enter or space presses. Escape or a click gives them back.

#include <array>
#include <span>
#include <string>

#include "app/command/ui_state.h"
#include "app/window/glfw_window.h"

namespace kvscope::app {

/// Before ImGui::NewFrame(), after those of its back ends, which clear what it sets: controls are walked through only while the keyboard has them.
void apply_keyboard_focus(const UiState& ui);
/// What has the keys, or asks for them.
struct KeyOwner {
  bool find = false, go_to = false, prompt = false, popup = false;
  bool operator==(const KeyOwner&) const = default;
};
KeyOwner key_owner(const UiState& ui);
/// A field of ImGui's has the keyboard, as it was drawn last: io.WantTextInput knows of it a frame later.
bool has_text_field();
/// It undoes its own changes; those of others are the window's to undo.
bool field_has_undo();
/// All input that Dear ImGui was fed was heard by a frame.
bool is_input_drawn();
/// Whether a key without modifiers belongs to the controls now.
bool is_key_of_controls(const UiState& ui, const std::string& key);
/// What a key means to the list or dialog that lies over the views, as UiState::popup_keys has it; empty: nothing.
std::string key_of_popup(const UiState& ui, const KeyPress& press);
/// It would act on a part of the window, which lies behind what is open.
bool leads_behind_popup(const UiState& ui, const KeyPress& press);
/// Takes up UiState::focus_step: the next of these regions that is on the screen, the first when none has the keys. Before
/// the regions are drawn: ImGui asks the items of this frame which is the first, and forgets the question with the next.
void move_keyboard_focus(UiState& ui, std::span<const std::string> regions);
/// At the end of a child window that scrolls: what the keys have framed in it since the last frame is brought into sight, which
/// ImGui does of what arrows reach, not of what it goes in at.
void bring_framed_into_sight();
/// Before the items of a child window of which some are gone: keys that go in begin anew, not at one of these.
void forget_framed();
/// Takes up UiState::close_popup: ImGui itself hears Escape only while the keyboard has the controls.
void close_popup_if_asked(UiState& ui);
/// The region that has them; empty if none does.
std::string keyboard_region(const UiState& ui);
/// Position and size of the control that Enter presses, in pixels; zeros without one.
std::array<float, 4> keyboard_frame(const UiState& ui);

}  // namespace kvscope::app
