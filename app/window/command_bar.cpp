// The bar at the top: menu, model, run and cancel, comparison, palette.

#include <algorithm>
#include <vector>

#include "app/window/obstacle_note.h"
#include "app/window/panel.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kListWidth = 610;  // of the models, which are to be within a window of 800 pixels

// The one that is possible now and most useful stands out: Stop while a run goes on, Decode again beside a preview.
void draw_actions(Panel& panel, bool narrow) {
  const float height = panel.px(32);
  const bool running = panel.session.run_in_progress(), preview = panel.session.preview().shown();
  const bool again = preview && why_not(panel.session, RunKind::decode_again).empty();
  if (running) {
    command_button(panel, "Stop", "run.cancel", {panel.px(narrow ? 64 : 96), height}, true);
  } else {
    command_button(panel, "Run", "run.start", {panel.px(narrow ? 64 : 96), height},
                   !again && obstacles(panel.session, RunKind::start).empty());
  }
  ImGui::SameLine();
  command_button(panel, narrow ? "Again" : "Decode again", "run.decode_again", {panel.px(narrow ? 64 : 132), height},
                 again && !running);
}

// A preview invites to decode again: where that is not possible, this shows why.
std::vector<Obstacle> obstacles_on_show(const Session& session) {
  std::vector<Obstacle> list = obstacles(session, RunKind::start);
  return list.empty() && session.preview().shown() ? obstacles(session, RunKind::decode_again) : list;
}

void draw_search(Panel& panel, float width) {
  const auto& palette = panel.theme().palette;
  const float height = panel.px(32);
  const bool wide = width > panel.px(200);
  ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(palette.muted));
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {wide ? 0.06f : 0.5f, 0.5f});
  if (ImGui::Button(wide ? "Search commands             Ctrl+K" : "Ctrl+K", {width, height})) panel.run("palette.open");
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  panel.item("button.palette.open");
}

}  // namespace

void draw_command_bar(Panel& panel) {
  const float top = panel.px(11), bar = ImGui::GetWindowWidth();
  const bool narrow = bar < panel.px(1000), named = bar >= panel.px(900);
  const std::vector<Obstacle> in_the_way = obstacles_on_show(panel.session);
  ImGui::SetCursorPos({panel.px(16), top + panel.px(3)});
  if (named) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "KVScope");
    ImGui::SetCursorPosX(panel.px(132));
  }
  ImGui::SetCursorPosY(top);
  draw_menu(panel);
  ImGui::SameLine();
  draw_actions(panel, narrow);
  ImGui::SameLine(0, panel.px(narrow ? 10 : 22));
  const float search = panel.px(bar < panel.px(1200) ? 70 : 250);
  const float left = ImGui::GetCursorPosX(), room = bar - left - search - panel.px(34);
  const bool told = !in_the_way.empty() && !(in_the_way.front().passes && panel.session.run_in_progress());
  const float model = told ? panel.px(370) : 0;
  if (told) {
    const float share = room > model + panel.px(380) ? room - model : room;
    ImGui::SetCursorPosY(top);
    draw_obstacle_in_bar(panel, in_the_way, share);
    ImGui::SameLine(0, panel.px(22));
  }
  float list = ImGui::GetWindowPos().x + left;
  if (!told || room > model + panel.px(380)) {
    ImGui::SetCursorPosY(top - panel.px(4));
    list = ImGui::GetCursorScreenPos().x;
    draw_model(panel, told ? model : std::min(room, panel.px(440)));
  }
  list = std::min(list, ImGui::GetWindowPos().x + std::max(panel.px(8), bar - panel.px(kListWidth)));
  draw_models_list(panel, {list, ImGui::GetWindowPos().y + top + panel.px(40)});
  ImGui::SetCursorPos({bar - search - panel.px(14), top});
  draw_search(panel, search);
}

}  // namespace kvscope::app
