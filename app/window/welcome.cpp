#include "app/window/welcome.h"

#include <imgui.h>

#include <algorithm>
#include <string>

#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostShown = 1500;  // bytes of a prompt; a long one is seen when the engine has read it

void draw_invitation(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(panel.px(520), room.x), left = ImGui::GetCursorPosX() + (room.x - width) / 2;
  ImGui::SetCursorPos({left, ImGui::GetCursorPosY() + std::max(0.f, room.y * 0.30f)});
  ImGui::BeginGroup();
  draw_text(panel.theme().fonts.title, palette.text, "Which tokens does the model keep?");
  ImGui::PushTextWrapPos(left + width);
  views::text_in(
      palette.muted,
      "Run the prompt: tokens stream in, and for every layer and head you see what stays in the KV cache, what is "
      "evicted and why, and how that compares with what later tokens attend to.");
  ImGui::PopTextWrapPos();
  ImGui::Dummy({0, panel.px(8)});
  command_button(panel, "Run the prompt", "run.start", {panel.px(150), panel.px(34)}, true);
  ImGui::SameLine();
  if (ImGui::Button("Open a model or trace", {panel.px(190), panel.px(34)})) panel.run("file.open");
  panel.item("welcome.open");
  ImGui::SameLine();
  if (ImGui::Button("Keys", {panel.px(80), panel.px(34)})) panel.run("help.keys");
  ImGui::EndGroup();
}

/// Its tokens one after the other, every second one on a darker ground, as far as the canvas has lines.
void draw_tokens(Panel& panel, const std::vector<std::string>& pieces) {
  const auto& palette = panel.theme().palette;
  const ImVec2 from = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
  const float line = ImGui::GetTextLineHeight() + panel.px(6), pad = panel.px(1);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImVec2 at = from;
  bool odd = false;
  std::string text;
  for (const std::string& piece : pieces) {
    const bool breaks = piece.find('\n') != std::string::npos;
    std::string shown = piece;
    std::erase(shown, '\n');
    shown = escape_for_terminal(shown);
    const ImVec2 size = ImGui::CalcTextSize(shown.c_str());
    if (at.x + size.x > from.x + room.x) at = {from.x, at.y + line};
    if (at.y + line > from.y + room.y) break;
    if (odd) list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, views::to_imgui(palette.raised), panel.px(2));
    list.AddText(at, views::to_imgui(palette.text), shown.c_str());
    at.x += size.x + pad;
    if (breaks) at = {from.x, at.y + line};
    odd = !odd;
    text += shown;
  }
  ImGui::Dummy({room.x, at.y + line - from.y});
  panel.services.items->add_text("welcome.tokens", views::last_item(), text);
}

void draw_reading(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const Session& session = panel.session;
  const RunEntry* run = session.runs().find(session.runs().newest_begun());
  draw_text(panel.theme().fonts.title, palette.text, "Reading the prompt ...");
  std::string what = session.engine().progress_line();
  if (const int n = session.next_run().prompt_tokens(); n > 0 && what.find("token") == std::string::npos)
    what += ", " + std::to_string(n) + (n == 1 ? " token" : " tokens");
  views::text_in(palette.muted, what);
  panel.services.items->add_text("welcome.reading", views::last_item(), what);
  ImGui::Dummy({0, panel.px(8)});
  if (run) draw_tokens(panel, session.next_run().pieces_of(run->run->prompt_text.substr(0, kMostShown)));
}

}  // namespace

void draw_welcome(Panel& panel) {
  if (panel.session.run_in_progress()) return draw_reading(panel);
  draw_invitation(panel);
}

}  // namespace kvscope::app
