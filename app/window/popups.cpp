// Popups: the palette of all commands, the list of keys, and the field for a path.

#include <imgui.h>
#include <imgui_internal.h>  // BringWindowToDisplayFront
#include <imgui_stdlib.h>    // after imgui.h: it has no includes of its own

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/widgets/chrome.h"
#include "views/widgets/input_undo.h"

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

// Takes the light off what lies behind a popup; a click there closes it.
void draw_dim(Panel& panel) {
  if (!panel.ui.has_popup()) return;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, IM_COL32(0, 0, 0, panel.theme().dark ? 110 : 60));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("dim", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav);
  if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(0)) panel.ui.close_popups();
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

struct PaletteState {
  std::string query;
  int chosen = 0;
  bool was_open = false;
};

// How well a command fits what was typed: 0 at the beginning of its title, 1 at that of a word, 2 anywhere.
int rank(const Command& command, const std::string& query) {
  const auto at = lower(command.title).find(lower(query));
  if (at == std::string::npos) return 2;
  return at == 0 ? 0 : command.title[at - 1] == ' ' ? 1 : 2;
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

void draw_palette_row(Panel& panel, const Found& one, bool chosen) {
  const Command& command = *one.command;
  const auto& palette = panel.theme().palette;
  if (ImGui::Selectable("##row", chosen, one.enabled ? 0 : ImGuiSelectableFlags_Disabled,
                        {0, ImGui::GetTextLineHeight() + panel.px(4)})) {
    panel.ui.palette = false;
    panel.run(command.id);
  }
  const std::string why = one.enabled ? "" : panel.commands.refusal(command);
  panel.services.items->add_text("palette." + command.id, views::last_item(),
                                 one.enabled ? "possible" : "not possible now. " + why);
  if (chosen && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::SameLine(panel.px(10));
  text_in(one.enabled ? palette.text : palette.faint, command.title);
  const views::FontScope font(panel.theme().fonts.small);
  const std::string keys = first_shortcut(command), note = one.enabled   ? command.arguments
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

void draw_palette(Panel& panel) {
  static PaletteState state;
  if (!panel.ui.palette) {
    state = {};
    return;
  }
  if (begin_popup(panel, "palette", 680, 440)) {
    if (!state.was_open) ImGui::SetKeyboardFocusHere(), ImGui::SetWindowFocus();
    state.was_open = true;
    ImGui::SetNextItemWidth(-1);
    if (ImGui::InputTextWithHint("##query", "Type a command", &state.query)) state.chosen = 0;
    views::forget_input_undo();
    panel.item("palette.input");
    const std::vector<Found> found = found_commands(panel, state.query);
    state.chosen = std::clamp(state.chosen, 0, std::max(0, static_cast<int>(found.size()) - 1));
    ImGui::BeginChild("rows");
    for (int i = 0; i < static_cast<int>(found.size()); ++i) {
      ImGui::PushID(i);
      draw_palette_row(panel, found[static_cast<std::size_t>(i)], i == state.chosen);
      ImGui::PopID();
    }
    if (found.empty()) text_in(panel.theme().palette.muted, "No command has these words.");
    ImGui::EndChild();
    // The keys come from the window's own queue: ImGui loses quick taps.
    for (const std::string& key : panel.ui.popup_keys) {
      if (key == "down") ++state.chosen;
      if (key == "up") state.chosen = std::max(0, state.chosen - 1);
      if (key != "enter" || found.empty()) continue;
      const Found& chosen =
          found[static_cast<std::size_t>(std::min<int>(state.chosen, static_cast<int>(found.size()) - 1))];
      if (!chosen.enabled) continue;  // it says why
      panel.ui.palette = false;
      panel.run(chosen.command->id);
    }
  }
  ImGui::End();
}

struct KeyGroup {
  std::string name;
  std::vector<const Command*> commands;
};

/// The commands that have keys, a menu's together wherever they were added.
std::vector<KeyGroup> key_groups(const CommandRegistry& commands) {
  std::vector<KeyGroup> groups;
  for (const Command& command : commands.all()) {
    if (command.shortcut.empty()) continue;
    auto group = std::ranges::find(groups, command.group, &KeyGroup::name);
    if (group == groups.end()) group = groups.insert(groups.end(), {command.group, {}});
    group->commands.push_back(&command);
  }
  return groups;
}

/// "right" as it stands on the key: "Right".
std::string key_caps(std::string keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i - 1] == ' ' || keys[i - 1] == '+')
      keys[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(keys[i])));
  }
  return keys;
}

void draw_key_group(Panel& panel, const KeyGroup& group, float width) {
  ImGui::Dummy({0, panel.px(2)});
  draw_text(panel.theme().fonts.bold, panel.theme().palette.text, group.name);
  if (!ImGui::BeginTable(group.name.c_str(), 2, ImGuiTableFlags_None, {width, 0})) return;
  ImGui::TableSetupColumn("what", ImGuiTableColumnFlags_WidthStretch, 5);
  ImGui::TableSetupColumn("keys", ImGuiTableColumnFlags_WidthStretch, 3);
  for (const Command* command : group.commands) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    views::wrapped_text_in(panel.theme().palette.muted, command->title);
    ImGui::TableNextColumn();
    views::wrapped_text_in(panel.theme().palette.accent, key_caps(command->shortcut));
  }
  ImGui::EndTable();
}

/// Two columns where there is room, so that most of the sheet is seen at once.
void draw_key_groups(Panel& panel) {
  const std::vector<KeyGroup> groups = key_groups(panel.commands);
  std::size_t lines = 0;
  for (const KeyGroup& group : groups) lines += group.commands.size() + 2;
  const float room = ImGui::GetContentRegionAvail().x, gap = panel.px(24);
  const bool two = room > panel.px(700);
  const float width = two ? (room - gap) / 2 : room;
  std::size_t drawn = 0;
  bool right = false;
  ImGui::BeginGroup();
  for (const KeyGroup& group : groups) {
    if (two && !right && drawn > 0 && drawn + group.commands.size() / 2 > lines / 2) {
      ImGui::EndGroup();
      ImGui::SameLine(0, gap);
      ImGui::BeginGroup();
      right = true;
    }
    draw_key_group(panel, group, width);
    drawn += group.commands.size() + 2;
  }
  ImGui::EndGroup();
}

/// By the keys that were pressed since the last frame: arrows go three lines, the page keys a page but for a line.
void scroll_by_keys(const Panel& panel) {
  const float line = ImGui::GetTextLineHeightWithSpacing(), page = ImGui::GetWindowHeight() - line;
  float to = ImGui::GetScrollY();
  for (const std::string& key : panel.ui.popup_keys) {
    if (key == "up") to -= 3 * line;
    if (key == "down") to += 3 * line;
    if (key == "pageup") to -= page;
    if (key == "pagedown") to += page;
    if (key == "home") to = 0;
    if (key == "end") to = ImGui::GetScrollMaxY();
    to = std::clamp(to, 0.f, ImGui::GetScrollMaxY());
  }
  if (!panel.ui.popup_keys.empty()) ImGui::SetScrollY(to);
}

void draw_help(Panel& panel) {
  if (!panel.ui.help) return;
  if (begin_popup(panel, "keys", 1080, 820)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Keys");
    ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.help = false;
    panel.item("keys.close");
    ImGui::BeginChild("list");
    scroll_by_keys(panel);
    draw_key_groups(panel);
    const float most = ImGui::GetScrollMaxY();
    const char* place = ImGui::GetScrollY() <= 0 ? "top" : ImGui::GetScrollY() >= most ? "end" : "middle";
    ImGui::EndChild();
    panel.services.items->add_text("keys.list", views::last_item(), place);
  }
  ImGui::End();
}

}  // namespace

bool begin_popup(Panel& panel, const char* name, float width, float height) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float margin = panel.px(12), wide = std::min(panel.px(width), screen.x - 2 * margin);
  const float top = std::min(screen.y * 0.14f, panel.px(140));
  ImGui::SetNextWindowPos({(screen.x - wide) / 2, top});
  ImGui::SetNextWindowSize({wide, height > 0 ? std::min(panel.px(height), screen.y - top - margin) : 0});
  ImGui::PushStyleColor(ImGuiCol_Border, views::to_imgui(panel.theme().palette.faint));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, views::to_imgui(panel.theme().palette.panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, panel.px(8));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(16), panel.px(14)});
  const bool open = ImGui::Begin(name, nullptr,
                                 ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings);
  if (!ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor(2);
  return open;
}

void draw_popups(Panel& panel) {
  draw_dim(panel);
  draw_palette(panel);
  draw_help(panel);
  draw_notes(panel);
  draw_layouts(panel);
  draw_file_dialog(panel);
  panel.ui.popup_keys.clear();
}

}  // namespace kvscope::app
