// The fields over the views: what is searched for, and the number that one goes to.

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>  // after imgui.h, which it needs but does not include

#include <string>
#include <utility>

#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {
namespace {

using views::text_in;

// At the top right of the views, over them.
bool begin_bar(Panel& panel, const char* name, ImVec2 right_top) {
  const float width = std::min(panel.px(430), right_top.x);
  ImGui::SetNextWindowPos({right_top.x - width, right_top.y});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleColor(ImGuiCol_Border, views::to_imgui(panel.theme().palette.faint));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, views::to_imgui(panel.theme().palette.raised));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, panel.px(6));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(10), panel.px(8)});
  const bool open = ImGui::Begin(name, nullptr,
                                 ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor(2);
  return open;
}

// Takes the keyboard when it opens and keeps it over Enter. True where the text changed.
bool draw_field(Panel& panel, TextField& field, const char* hint, const char* item, float room) {
  static int n_asked = 0;
  n_asked += field.asks_keyboard == TextField::kAsks;
  if (field.asks_keyboard > 0) {
    --field.asks_keyboard;
    ImGui::SetKeyboardFocusHere(), ImGui::SetWindowFocus();
    views::want_frame();
  }
  ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x - room);
  ImGui::PushID(
      n_asked);  // ImGui selects all of a field that it has not seen: what is typed takes the old text's place
  const bool changed = ImGui::InputTextWithHint("##text", hint, &field.text, ImGuiInputTextFlags_AutoSelectAll);
  ImGui::PopID();
  field.focused = ImGui::IsItemActive();
  if (field.focused) field.asks_keyboard = 0;
  panel.services.items->add_text(item, views::last_item(), field.text);
  return changed;
}

std::string what_is_wrong(const Error& error) {
  const Error::Parts& parts = error.parts();
  return parts.expected.empty() ? parts.found : parts.found + ": expected " + parts.expected;
}

}  // namespace

void draw_find_bar(Panel& panel, const views::TokenFinder& finder, ImVec2 right_top) {
  if (!panel.ui.find || !panel.session.runs().shown_a()) return;
  if (begin_bar(panel, "find", right_top)) {
    TextField& field = *panel.ui.find;
    std::string& searched = panel.session.selection().find;
    if (field.asks_keyboard == TextField::kAsks) field.text = searched;
    if (draw_field(panel, field, "text, /val.e/, #id, evicted & oracle:kept & score>2", "find.input", panel.px(100)))
      searched = field.text;
    const auto button = [&](const char* label, const char* command, const char* item) {
      ImGui::SameLine(0, panel.px(4));
      if (ImGui::Button(label, {panel.px(28), 0})) panel.run(command);
      panel.item(item);
    };
    button("<", "find.prev", "find.prev");
    button(">", "find.next", "find.next");
    button("x", "find.clear", "find.close");
    for (const std::string& key : std::exchange(field.keys, {})) {
      panel.run(key == "enter" ? "find.next" : "find.prev");
      if (panel.ui.find) panel.ui.find->asks_keyboard = TextField::kAsks;  // ImGui's field gives it up at Enter
    }
    if (!panel.ui.find) return ImGui::End();
    const views::FontScope font(panel.theme().fonts.small);
    const std::string line = finder.line(panel.session.selection());
    const auto& palette = panel.theme().palette;
    views::wrapped_text_in(
        finder.is_wrong() ? palette.warn : palette.muted,
        line.empty() ? "Also kept, sink, window, missed, heads>=3, age<100, from:answer, class:num (word, space, "
                       "punct, newline); ! negates"
                     : escape_for_terminal(line, 300));
    panel.services.items->add_text("find.line", views::last_item(), line);
  }
  ImGui::End();
}

void draw_go_to(Panel& panel, ImVec2 right_top) {
  if (!panel.ui.go_to || !panel.session.runs().shown_a()) return;
  bool done = false;
  if (begin_bar(panel, "go_to", right_top)) {
    TextField& field = *panel.ui.go_to;
    if (draw_field(panel, field, "900, t 812, l 3 h 1 q 900", "go_to.input", 0)) field.refused.clear();
    if (!field.keys.empty() && !field.text.empty()) {
      try {
        panel.commands.execute("go.to", {{"place", field.text}});
        done = true;
      } catch (const Error& error) {
        field.refused = what_is_wrong(error);
        field.asks_keyboard = TextField::kAsks;
      }
    }
    field.keys.clear();
    const views::FontScope font(panel.theme().fonts.small);
    const auto& palette = panel.theme().palette;
    const std::string line =
        field.refused.empty() ? "Type a query, or t token, l layer, h head. Then press Enter." : field.refused;
    views::wrapped_text_in(field.refused.empty() ? palette.muted : palette.warn, line);
    panel.services.items->add_text("go_to.line", views::last_item(), line);
  }
  ImGui::End();
  if (done) panel.ui.go_to.reset();
}

}  // namespace kvscope::app
