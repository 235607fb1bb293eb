#include "views/widgets/range_thumbs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "views/figure/figure_builder.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr double kLeast = 0.01;  // of the axis between the thumbs

void draw_thumb(const ViewServices& services, ImVec2 right, float width) {
  const Theme& theme = *services.theme;
  const float h = theme.px(5), w = theme.px(7);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddLine({right.x, right.y}, {right.x + width, right.y}, to_imgui(theme.palette.text), theme.px(1.5f));
  list.AddTriangleFilled({right.x, right.y}, {right.x - w, right.y - h}, {right.x - w, right.y + h},
                         to_imgui(theme.palette.text));
  list.AddTriangle({right.x, right.y}, {right.x - w, right.y - h}, {right.x - w, right.y + h},
                   to_imgui(theme.palette.panel), theme.px(1));
}

}  // namespace

bool RangeThumbs::handle(const ViewServices& services, const char* item, const Panel& panel, ImVec2 origin,
                         const MapScale& scale, bool around_zero, bool hovered, ScaleClip& clip) {
  const float x = origin.x + static_cast<float>(panel.box.x), w = static_cast<float>(panel.box.w);
  const double top = origin.y + panel.box.y, bottom = origin.y + panel.box.bottom(),
               range = scale.axis_hi - scale.axis_lo;
  const auto y_of = [&](double v) { return static_cast<float>(bottom - (v - scale.axis_lo) / range * (bottom - top)); };
  const float pad = services.theme->px(9);
  const auto rect_of = [&](double v) { return item_rect({x - pad, y_of(v) - pad / 2}, {x + w, y_of(v) + pad / 2}); };
  draw_thumb(services, {x, y_of(scale.lo)}, w);
  draw_thumb(services, {x, y_of(scale.hi)}, w);
  const std::string name = item;
  services.items->add_text(name, item_rect({x, static_cast<float>(top)}, {x + w, static_cast<float>(bottom)}),
                           format_number(scale.lo) + " to " + format_number(scale.hi));
  services.items->add(name + ".lo", rect_of(scale.lo));
  services.items->add(name + ".hi", rect_of(scale.hi));

  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool over = hovered && mouse.x >= x - pad && mouse.x <= x + w + pad &&
                    mouse.y >= static_cast<float>(top) - pad && mouse.y <= static_cast<float>(bottom) + pad;
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) held_ = Held::none;
  if (over && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    clip = {};
    held_ = Held::none;
  } else if (over && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    held_ = std::abs(mouse.y - y_of(scale.lo)) < std::abs(mouse.y - y_of(scale.hi)) ? Held::lo : Held::hi;
  }
  if (over || held_ != Held::none) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
  if (held_ == Held::none || bottom <= top) return over;
  double v = scale.axis_lo + std::clamp((bottom - mouse.y) / (bottom - top), 0.0, 1.0) * range;
  if (around_zero) {
    v = std::clamp(std::abs(v), kLeast * range, scale.axis_hi);
    clip = {true, -v, v};
  } else if (held_ == Held::lo) {
    clip = {true, std::min(v, scale.hi - kLeast * range), scale.hi};
  } else {
    clip = {true, scale.lo, std::max(v, scale.lo + kLeast * range)};
  }
  if (clip.lo <= scale.axis_lo && clip.hi >= scale.axis_hi) clip = {};
  return true;
}

}  // namespace kvscope::views
