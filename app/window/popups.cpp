// Popups: the palette of all commands, the list of keys, and the field for a path.

#include <imgui.h>
#include <imgui_stdlib.h>  // after imgui.h: it has no includes of its own

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using views::text_in;

// All words of the query occur in the text, in any order and case.
bool matches(std::string text, std::string query) {
  const auto lower = [](std::string& s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  };
  lower(text), lower(query);
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find(' ', at), query.size());
    if (text.find(query.substr(at, end - at)) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

// Takes the light off what lies behind a popup; a click there closes it.
void draw_dim(Panel& panel) {
  if (!panel.ui.palette && !panel.ui.help && !panel.ui.dialog) return;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, IM_COL32(0, 0, 0, panel.theme().dark ? 110 : 60));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("dim", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav);
  if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(0)) {
    panel.ui.palette = panel.ui.help = false;
    panel.ui.dialog.reset();
  }
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

bool begin_popup(Panel& panel, const char* name, float width, float height) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({(screen.x - panel.px(width)) / 2, screen.y * 0.14f});
  ImGui::SetNextWindowSize({panel.px(width), height > 0 ? panel.px(height) : 0});
  ImGui::PushStyleColor(ImGuiCol_Border, views::to_imgui(panel.theme().palette.faint));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, views::to_imgui(panel.theme().palette.panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, panel.px(8));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(16), panel.px(14)});
  const bool open = ImGui::Begin(name, nullptr,
                                 ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor(2);
  return open;
}

struct PaletteState {
  std::string query;
  int chosen = 0;
  bool was_open = false;
};

void draw_palette_rows(Panel& panel, PaletteState& state, const std::vector<const Command*>& found) {
  for (int i = 0; i < static_cast<int>(found.size()); ++i) {
    const Command& command = *found[static_cast<std::size_t>(i)];
    const bool enabled = panel.commands.enabled(command);
    ImGui::PushID(i);
    ImGui::BeginDisabled(!enabled);
    if (ImGui::Selectable("##row", i == state.chosen, 0, {0, ImGui::GetTextLineHeight() + panel.px(4)})) {
      panel.ui.palette = false;
      panel.run(command.id);
    }
    ImGui::EndDisabled();
    if (i == state.chosen && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
    ImGui::SameLine(panel.px(10));
    text_in(enabled ? panel.theme().palette.text : panel.theme().palette.faint, command.title);
    ImGui::SameLine(panel.px(360));
    {
      const views::FontScope font(panel.theme().fonts.small);
      text_in(panel.theme().palette.muted, command.id);
      ImGui::SameLine(panel.px(560));
      text_in(panel.theme().palette.accent, first_shortcut(command));
    }
    ImGui::PopID();
  }
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
    panel.item("palette.input");
    std::vector<const Command*> found;
    for (const Command& command : panel.commands.all()) {
      if (matches(command.title + " " + command.id + " " + command.group, state.query)) found.push_back(&command);
    }
    state.chosen = std::clamp(state.chosen, 0, std::max(0, static_cast<int>(found.size()) - 1));
    ImGui::BeginChild("rows");
    draw_palette_rows(panel, state, found);
    ImGui::EndChild();
    // The keys come from the window's own queue: ImGui loses quick taps.
    for (const std::string& key : panel.ui.popup_keys) {
      if (key == "down") ++state.chosen;
      if (key == "up") state.chosen = std::max(0, state.chosen - 1);
      if (key == "enter" && !found.empty()) {
        panel.ui.palette = false;
        panel.run(found[static_cast<std::size_t>(std::min<int>(state.chosen, static_cast<int>(found.size()) - 1))]->id);
      }
    }
  }
  ImGui::End();
}

void draw_help(Panel& panel) {
  if (!panel.ui.help) return;
  if (begin_popup(panel, "keys", 760, 560)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Keys");
    ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.help = false;
    ImGui::BeginChild("list");
    if (ImGui::BeginTable("keys", 2, ImGuiTableFlags_SizingStretchProp)) {
      std::string group;
      for (const Command& command : panel.commands.all()) {
        if (command.shortcut.empty()) continue;
        if (command.group != group) {
          group = command.group;
          ImGui::TableNextRow(0, panel.px(30));
          ImGui::TableNextColumn();
          ImGui::SetCursorPosY(ImGui::GetCursorPosY() + panel.px(6));
          draw_text(panel.theme().fonts.bold, panel.theme().palette.text, group);
        }
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        text_in(panel.theme().palette.muted, command.title);
        ImGui::TableNextColumn();
        text_in(panel.theme().palette.accent, command.shortcut);
      }
      ImGui::EndTable();
    }
    ImGui::EndChild();
  }
  ImGui::End();
}

void finish_dialog(Panel& panel) {
  const FileDialog dialog = *panel.ui.dialog;
  if (dialog.path.empty()) return;
  nlohmann::json arguments = dialog.arguments;
  arguments["path"] = dialog.path;
  panel.ui.dialog.reset();
  panel.run(dialog.command, arguments);
}

void draw_dialog(Panel& panel) {
  static bool was_open = false;
  if (!panel.ui.dialog) {
    was_open = false;
    return;
  }
  if (begin_popup(panel, "dialog", 640, 0)) {
    FileDialog& dialog = *panel.ui.dialog;
    draw_text(panel.theme().fonts.bold, panel.theme().palette.text, dialog.title);
    if (!was_open) ImGui::SetKeyboardFocusHere(), ImGui::SetWindowFocus();
    was_open = true;
    ImGui::SetNextItemWidth(-1);
    ImGui::InputTextWithHint("##path", "path", &dialog.path);
    panel.item("dialog.path");
    std::error_code error;
    const bool exists = !dialog.path.empty() && fs::exists(dialog.path, error);
    bool done = false, cancelled = false;
    {
      const views::FontScope font(panel.theme().fonts.small);
      if (dialog.save && exists && !fs::is_directory(dialog.path, error)) {
        text_in(panel.theme().palette.warn, "It exists.");
        ImGui::SameLine();
        bool overwrite = dialog.arguments.value("overwrite", false);
        if (ImGui::Checkbox("replace it", &overwrite)) dialog.arguments["overwrite"] = overwrite;
      } else if (!dialog.save && !dialog.path.empty() && !exists) {
        text_in(panel.theme().palette.warn, "There is nothing of that name.");
      } else {
        text_in(panel.theme().palette.muted, dialog.hint);
        panel.services.items->add_text("dialog.hint", views::last_item(), dialog.hint);
      }
      if (!dialog.save) {
        for (const std::string& recent : panel.session.files().recent()) {
          if (ImGui::Selectable(escape_for_terminal(recent).c_str())) dialog.path = recent, done = true;
        }
      }
    }
    ImGui::Dummy({0, panel.px(4)});
    if (ImGui::Button(dialog.save ? "Save" : "Open", {panel.px(110), panel.px(30)})) done = true;
    panel.item("dialog.ok");
    ImGui::SameLine();
    if (ImGui::Button("Cancel", {panel.px(110), panel.px(30)})) cancelled = true;
    panel.item("dialog.cancel");
    for (const std::string& key : panel.ui.popup_keys) done |= key == "enter";
    if (done) finish_dialog(panel);
    if (cancelled) panel.ui.dialog.reset();
  }
  ImGui::End();
}

}  // namespace

void draw_popups(Panel& panel) {
  draw_dim(panel);
  draw_palette(panel);
  draw_help(panel);
  draw_dialog(panel);
  panel.ui.popup_keys.clear();
}

}  // namespace kvscope::app
