#include "views/widgets/head_brush.h"

#include <algorithm>

namespace kvscope::views {

std::optional<KvHead> HeadBrush::handle(HeadSet& heads, const Panel& panel, ImVec2 origin, const HeadAt& head_at,
                                        bool hovered, Plain plain) {
  const ImGuiIO& io = ImGui::GetIO();
  const Point mouse{io.MousePos.x - origin.x, io.MousePos.y - origin.y};
  if (!down_) {
    const auto cell = hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left) ? panel.cell_at(mouse) : std::nullopt;
    if (!cell) return std::nullopt;
    begin(heads, *cell, head_at(cell->first, cell->second), plain);
    if (acts_at_once_) apply(heads, head_at, from_);
  }
  // A drag may end outside: the rectangle ends at the nearest cell.
  const Box& box = panel.box;
  const Point inside{std::clamp(mouse.x, box.x, box.right() - 1e-3), std::clamp(mouse.y, box.y, box.bottom() - 1e-3)};
  const auto to = panel.cell_at(inside);
  if (to && (moved_ || *to != from_)) {
    moved_ = true;
    apply(heads, head_at, *to);
  }
  if (ImGui::IsMouseDown(ImGuiMouseButton_Left)) return std::nullopt;
  down_ = false;
  if (moved_ || acts_at_once_) return std::nullopt;
  return head_at(from_.first, from_.second);
}

void HeadBrush::begin(const HeadSet& heads, std::pair<int, int> cell, KvHead head, Plain plain) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool takes = io.KeyCtrl || io.KeyAlt, adds = io.KeyShift && !takes;
  down_ = true, moved_ = false;
  from_ = cell;
  before_ = heads;
  acts_at_once_ = takes || adds || plain == Plain::paints;
  does_ = takes ? Does::remove : adds ? Does::add : Does::replace;
  if (does_ == Does::replace && plain == Plain::paints) does_ = heads.contains(head) ? Does::remove : Does::add;
}

void HeadBrush::apply(HeadSet& heads, const HeadAt& head_at, std::pair<int, int> to) const {
  HeadSet rectangle;
  for (int row = std::min(from_.first, to.first); row <= std::max(from_.first, to.first); ++row) {
    for (int column = std::min(from_.second, to.second); column <= std::max(from_.second, to.second); ++column)
      rectangle.add(head_at(row, column));
  }
  heads = does_ == Does::replace ? HeadSet() : before_;
  does_ == Does::remove ? heads.remove(rectangle) : heads.add(rectangle);
}

}  // namespace kvscope::views
