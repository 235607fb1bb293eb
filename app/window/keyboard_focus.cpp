#include "app/window/keyboard_focus.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/window/dock.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::app {
namespace {

/// A region by its name, which is that of its window or, in the dock, what comes after its title.
ImGuiWindow* window_of(const std::string& region) {
  ImGuiWindow* window = ImGui::FindWindowByName(region.c_str());
  return window && window->WasActive ? window : ImGui::FindWindowByName(dock_name("", region).c_str());
}

// In the last frame: of this one no region was begun yet.
bool was_on_screen(const std::string& name) {
  const ImGuiWindow* window = window_of(name);
  return window && window->WasActive && !window->Hidden;
}

/// Something in it can have the keys, itself or a part of it. Of the frame drawn last.
bool has_control(const ImGuiWindow& window) {
  return window.DC.NavLayersActiveMaskNext != 0 ||
         std::any_of(window.DC.ChildWindows.begin(), window.DC.ChildWindows.end(),
                     [](const ImGuiWindow* child) { return has_control(*child); });
}

/// On the screen, or asked for by the key before this one.
bool has_models(const UiState& ui) { return ui.models || ui.models_shown; }

}  // namespace

void apply_keyboard_focus(const UiState& ui) {
  ImGuiIO& io = ImGui::GetIO();
  if ((ui.keyboard && !ui.layouts) || ui.notes) {  // the keys of layouts are their own
    io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  } else {
    io.ConfigFlags &= ~ImGuiConfigFlags_NavEnableKeyboard;
  }
}

KeyOwner key_owner(const UiState& ui) {
  return {ui.find.has_value(), ui.go_to.has_value(), ui.focus_prompt, ui.has_popup()};
}

bool has_text_field() {
  return ImGui::GetIO().WantTextInput || ImGui::GetCurrentContext()->WantTextInputNextFrame == 1;
}

bool field_has_undo() {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return g.ActiveId != 0 && g.InputTextState.ID == g.ActiveId &&
         (g.InputTextState.Flags & ImGuiInputTextFlags_NoUndoRedo) == 0;
}

bool is_input_drawn() { return ImGui::GetCurrentContext()->InputEventsQueue.empty(); }

std::string key_of_popup(const UiState& ui, const KeyPress& press) {
  const std::string& key = press.key;
  if (press.ctrl) return "";
  if ((ui.dialog || ui.layouts) && press.alt && key == "r") return "alt+r";  // to replace what is there
  if (ui.layouts && press.alt && key == "delete") return "alt+delete";
  if (ui.dialog && ui.dialog->figure && press.alt && (key == "f" || key == "v"))
    return (press.shift ? "shift+alt+" : "alt+") + key;  // another figure or venue
  if (has_models(ui) && key == "tab") return press.shift ? "up" : "down";
  const bool list = ui.palette || ui.layouts || ui.dialog || has_models(ui);
  const bool scrolls = key == "pageup" || key == "pagedown" || key == "home" || key == "end";
  const bool is_its = key == "up" || key == "down" ? list || ui.help : key == "enter" ? list : ui.help && scrolls;
  return is_its ? key : "";
}

bool leads_behind_popup(const UiState& ui, const KeyPress& press) {
  const bool is_popup = ui.has_popup() || has_models(ui) || ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup);
  const bool is_function_key = press.key.size() > 1 && press.key[0] == 'f';
  return is_popup && !press.ctrl && !press.alt && (!is_function_key || press.key == "f6");
}

bool is_key_of_controls(const UiState& ui, const std::string& key) {
  static constexpr std::array<const char*, 10> kKeys = {"left",  "right", "up",  "down",   "space",
                                                        "enter", "home",  "end", "pageup", "pagedown"};
  return ui.keyboard && std::ranges::find(kKeys, key) != kKeys.end();
}

void move_keyboard_focus(UiState& ui, std::span<const std::string> regions) {
  ImGuiContext& context = *ImGui::GetCurrentContext();
  if (!ui.keyboard && !ui.notes) {
    context.NavCursorVisible = false;
    ui.focus_step = 0;
    return;
  }
  context.NavCursorVisible = true;  // ImGui shows the frame only after the first arrow
  const int step = std::exchange(ui.focus_step, 0), n = static_cast<int>(regions.size());
  if (step == 0 || n == 0) return;
  const auto now = std::ranges::find(regions, keyboard_region(ui));
  int at = now == regions.end() ? (step > 0 ? -1 : 0) : static_cast<int>(now - regions.begin());
  for (int i = 0; i < n; ++i) {
    at = (at + step + n) % n;
    const std::string& name = regions[static_cast<std::size_t>(at)];
    if (!was_on_screen(name)) continue;
    ImGuiWindow* window = window_of(name);
    if (!has_control(*window)) continue;  // nothing in it could be framed
    ImGui::FocusWindow(window);
    ImGui::SetScrollY(window, 0);  // its first control gets the keys: in sight
    ImGui::NavInitWindow(window, true);
    return;
  }
}

void bring_framed_into_sight() {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  ImGuiWindow* window = g.CurrentWindow;
  const bool framed = g.NavWindow == window && g.NavId != 0 && g.NavCursorVisible;
  int& seen = *window->StateStorage.GetIntRef(window->GetID("framed"), 0);
  const int now = framed ? static_cast<int>(g.NavId) : 0;
  if (std::exchange(seen, now) == now || !framed) return;
  const ImRect at = ImGui::WindowRectRelToAbs(window, window->NavRectRel[ImGuiNavLayer_Main]), in = window->InnerRect;
  if (at.Min.y < in.Min.y) ImGui::SetScrollY(window->Scroll.y - (in.Min.y - at.Min.y));
  if (at.Max.y > in.Max.y) ImGui::SetScrollY(window->Scroll.y + (at.Max.y - in.Max.y));
}

void forget_framed() { ImGui::GetCurrentWindow()->NavLastIds[ImGuiNavLayer_Main] = 0; }

void close_popup_if_asked(UiState& ui) {
  const auto& open = ImGui::GetCurrentContext()->OpenPopupStack;
  if (!std::exchange(ui.close_popup, false) || open.empty()) return;
  // A menu goes with the whole list that it is an entry of: under the mouse it would be open again at once.
  const auto is_menu = [&](int at) {
    return open[at].Window && (open[at].Window->Flags & ImGuiWindowFlags_ChildMenu) != 0;
  };
  int level = open.Size - 1;
  while (level > 0 && is_menu(level)) --level;
  ImGui::ClosePopupToLevel(level, true);
}

std::string keyboard_region(const UiState& ui) {
  const ImGuiWindow* window = ImGui::GetCurrentContext()->NavWindow;
  return ui.keyboard && window ? docked_id(window->RootWindow->Name) : "";
}

std::array<float, 4> keyboard_frame(const UiState& ui) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  if (!(ui.keyboard || ui.notes) || !g.NavWindow || g.NavId == 0) return {};
  const ImRect at = ImGui::WindowRectRelToAbs(g.NavWindow, g.NavWindow->NavRectRel[g.NavLayer]);
  return {at.Min.x, at.Min.y, at.GetWidth(), at.GetHeight()};
}

}  // namespace kvscope::app
