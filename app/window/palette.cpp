// The palette: all commands by their words, and the arguments of those that need some.

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>  // after imgui.h, which it needs but does not include

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "app/window/argument_words.h"
#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// All words of the query occur in the text, in any order and case.
bool matches(const std::string& in, const std::string& words) {
  const std::string text = lower(in), query = lower(words);
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find(' ', at), query.size());
    if (text.find(query.substr(at, end - at)) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

struct PaletteState {
  std::string query;
  int chosen = 0;
  bool was_open = false;
  std::string asked;           // id of the command whose arguments are asked for
  std::string value, refused;  // what is typed as these, and why it is wrong
};
PaletteState palette_state;

// How well a command fits what was typed: 0 at the beginning of its title, 1 at that of a word, 2 anywhere.
int rank(const Command& command, const std::string& query) {
  const auto at = lower(command.title).find(lower(query));
  if (at == std::string::npos) return 2;
  // What a step would take back is no command of that name.
  const bool is_step = command.id == "edit.undo" || command.id == "edit.redo";
  return at == 0 ? 0 : is_step ? 2 : command.title[at - 1] == ' ' ? 1 : 2;
}

struct Found {
  const Command* command;
  bool enabled;
};

// Those that are possible first, then what fits best; else in the order of the menu.
std::vector<Found> found_commands(Panel& panel, const std::string& query) {
  std::vector<Found> found;
  for (const Command& command : panel.commands.all()) {
    if (matches(command.title + " " + command.id + " " + command.group, query))
      found.push_back({&command, panel.commands.enabled(command)});
  }
  std::ranges::stable_sort(found, {},
                           [&](const Found& one) { return std::pair(!one.enabled, rank(*one.command, query)); });
  return found;
}

/// From the list: done, or its arguments are asked for.
void take_command(Panel& panel, const Command& command) {
  if (asks_arguments(command)) return void(panel.ui.palette_asks = command.id);
  panel.ui.palette = false;
  panel.run(std::string(command.id));
}

/// With the text in the field; if refused, it stays.
void run_asked(Panel& panel, const Command& command) {
  const std::string id = command.id;
  try {
    const nlohmann::json arguments = parse_arguments(command, with_names(command.arguments, palette_state.value));
    panel.ui.palette = false;
    panel.commands.execute(id, arguments);
  } catch (const Error& error) {
    panel.ui.palette = true;
    palette_state.refused = error.what();
    palette_state.was_open = false;  // ImGui takes the keyboard from a field at Enter
  }
}

/// In the place of the list: what a command needs, and a field for it.
void draw_arguments(Panel& panel, const Command& command) {
  PaletteState& state = palette_state;
  if (!state.was_open) ImGui::SetKeyboardFocusHere(), ImGui::SetWindowFocus();
  state.was_open = true;
  ImGui::SetNextItemWidth(-1);
  const std::string asked = argument_words(command.arguments);
  if (ImGui::InputTextWithHint("##value", asked.c_str(), &state.value)) state.refused.clear();
  panel.item("palette.input");
  const views::Palette& palette = panel.theme().palette;
  draw_text(panel.theme().fonts.bold, palette.text, command.title);
  const std::vector<Argument>& all = command.arguments;
  std::string hint = asked + (all.size() > 1 ? "; type: name value, name value" : "");
  if (takes_order(all)) hint += ", or the numbers in order";
  views::wrapped_text_in(palette.muted, hint);
  panel.services.items->add_text("palette.asks", views::last_item(), hint);
  views::wrapped_text_in(palette.faint, "Enter runs it, Esc returns to the list.");
  if (!state.refused.empty()) {
    views::wrapped_text_in(palette.bad, state.refused);
    panel.services.items->add_text("palette.refused", views::last_item(), state.refused);
  }
  if (std::ranges::find(panel.ui.popup_keys, "enter") != panel.ui.popup_keys.end()) run_asked(panel, command);
}

void draw_palette_row(Panel& panel, const Found& one, bool chosen) {
  const Command& command = *one.command;
  const auto& palette = panel.theme().palette;
  if (ImGui::Selectable("##row", chosen, one.enabled ? 0 : ImGuiSelectableFlags_Disabled,
                        {0, ImGui::GetTextLineHeight() + panel.px(4)})) {
    take_command(panel, command);
  }
  const std::string why = one.enabled ? "" : panel.commands.refusal(command);
  panel.services.items->add_text("palette." + command.id, views::last_item(),
                                 one.enabled ? "possible" : "not possible now. " + why);
  if (chosen && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::SameLine(panel.px(10));
  text_in(one.enabled ? palette.text : palette.faint, command.title);
  const views::FontScope font(panel.theme().fonts.small);
  const std::string keys = panel.shortcuts.first(command), note = one.enabled   ? argument_words(command.arguments)
                                                                  : why.empty() ? "not possible now"
                                                                                : why;
  ImGui::SameLine(std::max(width * 0.54f, panel.px(180)));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float keys_width = keys.empty() ? 0 : ImGui::CalcTextSize(keys.c_str()).x + panel.px(12);
  ImGui::PushClipRect(at, {ImGui::GetWindowPos().x + width - keys_width, at.y + panel.px(40)}, true);
  text_in(one.enabled ? palette.muted : palette.warn, note);
  ImGui::PopClipRect();
  if (keys.empty()) return;
  ImGui::SameLine(width - keys_width + panel.px(12));
  text_in(palette.accent, keys);
}

}  // namespace

void draw_palette(Panel& panel) {
  PaletteState& state = palette_state;
  if (!panel.ui.palette) {
    state = {};
    panel.ui.palette_asks.clear();
    return;
  }
  if (state.asked != panel.ui.palette_asks) {  // another field, which takes the keyboard
    state.asked = panel.ui.palette_asks;
    state.value.clear(), state.refused.clear();
    state.was_open = false;
  }
  const bool open = begin_popup(panel, "palette", 680, 440);
  const Command* asked = panel.commands.find(state.asked);
  if (open && asked) {
    draw_arguments(panel, *asked);
  } else if (open) {
    if (!state.was_open) ImGui::SetKeyboardFocusHere(), ImGui::SetWindowFocus();
    state.was_open = true;
    ImGui::SetNextItemWidth(-1);
    if (ImGui::InputTextWithHint("##query", "Type a command", &state.query)) state.chosen = 0;
    panel.services.items->add_text("palette.input", views::last_item(), state.query);
    const std::vector<Found> found = found_commands(panel, state.query);
    state.chosen = std::clamp(state.chosen, 0, std::max(0, static_cast<int>(found.size()) - 1));
    ImGui::BeginChild("rows");
    for (int i = 0; i < static_cast<int>(found.size()); ++i) {
      ImGui::PushID(i);
      draw_palette_row(panel, found[static_cast<std::size_t>(i)], i == state.chosen);
      ImGui::PopID();
    }
    if (found.empty()) text_in(panel.theme().palette.muted, "No matching command");
    ImGui::EndChild();
    // The keys come from the window's own queue: ImGui loses quick taps.
    for (const std::string& key : panel.ui.popup_keys) {
      if (key == "down") ++state.chosen;
      if (key == "up") state.chosen = std::max(0, state.chosen - 1);
      if (key != "enter") continue;
      state.was_open = false;  // where the list stays: ImGui takes the keyboard from a field at Enter
      if (found.empty()) continue;
      const Found& chosen =
          found[static_cast<std::size_t>(std::min<int>(state.chosen, static_cast<int>(found.size()) - 1))];
      if (!chosen.enabled) continue;  // it says why
      take_command(panel, *chosen.command);
      break;  // what it does may have changed the list
    }
  }
  ImGui::End();
}

}  // namespace kvscope::app
