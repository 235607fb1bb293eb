// Messages: what happened, and one thing to do about it. One line in the status bar, which covers nothing; over the views
// when the user opens all of them. Never a dialog in the way.

#include <algorithm>
#include <string>

#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

std::string text_of(const Banner& banner) { return escape_for_terminal(banner.text, 800); }

views::Colour colour_of(Panel& panel, const Banner& banner) {
  const auto& palette = panel.theme().palette;
  return banner.kind == Banner::Kind::error     ? palette.bad
         : banner.kind == Banner::Kind::warning ? palette.warn
                                                : palette.accent;
}

float button_width(Panel& panel, const std::string& label) {
  return label.empty() ? 0 : ImGui::CalcTextSize(label.c_str()).x + panel.px(28);
}

float text_room(Panel& panel, const Banner& banner, const std::string& fold) {
  return ImGui::GetContentRegionAvail().x - panel.px(64) -
         button_width(panel, banner.command.empty() ? "" : banner.button) - button_width(panel, fold);
}

float button_height(const Panel& panel) { return panel.px(panel.all_messages ? 28 : 22); }

/// `fold`: what the button says that folds and unfolds; empty where the row has none.
void draw_buttons(Panel& panel, const Banner& banner, const std::string& item, const std::string& fold) {
  const float height = button_height(panel);
  if (!fold.empty()) {
    if (ImGui::Button(fold.c_str(), {0, height})) panel.all_messages = !panel.all_messages;
    panel.item("banners.fold");
    ImGui::SameLine(0, panel.px(6));
  }
  if (!banner.command.empty()) {
    if (ImGui::Button(banner.button.c_str(), {0, height})) {
      // One that was refused may be pressed again when what is in the way is gone.
      if (panel.run(banner.command)) panel.session.messages().dismiss_banner(banner.id);
    }
    panel.item(item + ".button");
    ImGui::SameLine(0, panel.px(6));
  }
  // The next one takes its place, and the second click of a double click is not meant for that.
  const bool again = ImGui::IsMouseReleased(0) && ImGui::GetIO().MouseClickedLastCount[0] > 1;
  if (ImGui::Button("×", {height, height}) && !again) panel.session.messages().dismiss_banner(banner.id);
  panel.item(item + ".close");
}

void draw_banner(Panel& panel, const Banner& banner, const std::string& item, const std::string& fold) {
  const bool cut = !panel.all_messages;
  const float room = text_room(panel, banner, fold);
  const std::string whole = text_of(banner), text = cut ? views::cut_to(whole, room) : whole;
  const float text_height = ImGui::CalcTextSize(text.c_str(), nullptr, false, cut ? -1 : room).y;
  const float height = cut ? ImGui::GetContentRegionAvail().y : std::max(text_height + panel.px(16), panel.px(42));
  const ImVec2 at = ImGui::GetCursorScreenPos(), end{at.x + ImGui::GetContentRegionAvail().x, at.y + height};
  ImGui::PushID(banner.id);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, end, views::to_imgui(panel.theme().palette.raised), panel.px(5));
  list.AddRectFilled(at, {at.x + panel.px(4), end.y}, views::to_imgui(colour_of(panel, banner)), panel.px(2));
  ImGui::SetCursorScreenPos({at.x + panel.px(16), at.y + (height - text_height) / 2});
  ImGui::PushTextWrapPos(cut ? -1 : ImGui::GetCursorPosX() + room);
  views::text_in(panel.theme().palette.text, text);
  ImGui::PopTextWrapPos();
  panel.services.items->add_text(item, views::last_item(), text);
  ImGui::SetCursorScreenPos({at.x + panel.px(30) + room, at.y + (height - button_height(panel)) / 2});
  draw_buttons(panel, banner, item, fold);
  ImGui::SetCursorScreenPos({at.x, end.y + panel.px(6)});
  ImGui::Dummy({0, 0});
  ImGui::PopID();
}

/// The one that is seen of several: that there is no engine, without which nothing else can be done, else the newest.
std::size_t foremost(const std::vector<Banner>& banners) {
  for (std::size_t i = banners.size(); i-- > 0;) {
    if (banners[i].cured) return i;
  }
  return banners.size() - 1;
}

/// What the button says that shows them all; empty where they can be seen at once.
std::string more(Panel& panel, const std::vector<Banner>& banners) {
  if (banners.size() > 1) {
    const bool errors = std::ranges::count(banners, Banner::Kind::error, &Banner::kind) == std::ssize(banners);
    return std::to_string(banners.size()) + (errors ? " errors" : " messages");
  }
  return ImGui::CalcTextSize(text_of(banners[0]).c_str()).x > text_room(panel, banners[0], "") ? "More" : "";
}

}  // namespace

void draw_banners(Panel& panel) {
  const std::vector<Banner> banners = panel.session.messages().banners();  // a copy: buttons change the list
  if (banners.empty()) return void(panel.all_messages = false);
  const std::string fold = more(panel, banners);
  const bool all = panel.all_messages;
  const std::size_t first = foremost(banners);
  for (std::size_t i = 0; i < banners.size(); ++i) {
    if (!all && i != first) continue;
    draw_banner(panel, banners[i], "banner." + std::to_string(i), i != first ? "" : all ? "Less" : fold);
  }
}

}  // namespace kvscope::app
