#include "views/imgui_renderer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "views/figure/fonts.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr const char* kProbe = "Hxgp048";

/// ImGui sizes a font by its line, figures by its em: the factor between them, from one measured string.
float em_to_imgui(ImFont* font, FontRole role) {
  const float at_100 = font->CalcTextSizeA(100, 1e9f, 0, kProbe).x;
  return at_100 > 0 ? static_cast<float>(text_width(kProbe, role, 100)) / at_100 : 1.f;
}

class Pen {
 public:
  Pen(ImDrawList& list, ImVec2 origin, float scale, const Theme& theme) : list_(list), origin_(origin), scale_(scale) {
    fonts_ = {theme.fonts.text, theme.fonts.bold, theme.fonts.mono};
    for (std::size_t i = 0; i < fonts_.size(); ++i) {
      if (fonts_[i] == nullptr) fonts_[i] = ImGui::GetFont();
      factor_[i] = em_to_imgui(fonts_[i], static_cast<FontRole>(i));
    }
  }

  ImVec2 at(Point p) const {
    return {origin_.x + static_cast<float>(p.x) * scale_, origin_.y + static_cast<float>(p.y) * scale_};
  }

  void operator()(const FillBox& p) {
    list_.AddRectFilled(at({p.box.x, p.box.y}), at({p.box.right(), p.box.bottom()}), to_imgui(p.colour), px(p.radius));
  }
  void operator()(const StrokeBox& p) {
    const ImVec2 a = snap(at({p.box.x, p.box.y})), b = snap(at({p.box.right(), p.box.bottom()}));
    if (p.dash <= 0) return list_.AddRect(a, {b.x + 1, b.y + 1}, to_imgui(p.colour), px(p.radius), thickness(p.width));
    for (const auto& [from, to] :
         {std::pair{a, ImVec2{b.x, a.y}}, {ImVec2{b.x, a.y}, b}, {b, ImVec2{a.x, b.y}}, {ImVec2{a.x, b.y}, a}}) {
      dashed(from, to, to_imgui(p.colour), thickness(p.width), px(p.dash));
    }
  }
  void operator()(const Polyline& p) {
    for (std::size_t i = 1; i < p.points.size(); ++i) {
      ImVec2 a = at(p.points[i - 1]), b = at(p.points[i]);
      if (a.x == b.x) a.x = b.x = std::floor(a.x) + 0.5f;  // hair lines on one pixel, not on two halves
      if (a.y == b.y) a.y = b.y = std::floor(a.y) + 0.5f;
      if (p.dash > 0) {
        dashed(a, b, to_imgui(p.colour), thickness(p.width), px(p.dash));
      } else {
        list_.AddLine(a, b, to_imgui(p.colour), thickness(p.width));
      }
    }
  }
  void operator()(const Polygon& p) {
    const std::size_t n = p.points.size();
    const auto flags = list_.Flags;
    list_.Flags &= ~ImDrawFlags_AAFill;  // antialiased neighbours show a seam
    for (std::size_t i = 0; i + 1 < n / 2; ++i) {
      list_.AddQuadFilled(at(p.points[i]), at(p.points[i + 1]), at(p.points[n - 2 - i]), at(p.points[n - 1 - i]),
                          to_imgui(p.colour));
    }
    list_.Flags = flags;
  }
  void operator()(const Hatch& p) {
    list_.PushClipRect(at({p.box.x, p.box.y}), at({p.box.right(), p.box.bottom()}), true);
    const double first = std::ceil((p.box.x + p.box.y) / p.spacing) * p.spacing;
    for (double k = first; k < p.box.right() + p.box.bottom(); k += p.spacing) {
      list_.AddLine(at({k - p.box.y, p.box.y}), at({k - p.box.bottom(), p.box.bottom()}), to_imgui(p.colour), 1.f);
    }
    list_.PopClipRect();
  }
  void operator()(const Text& p) {
    ImFont* font = fonts_[static_cast<std::size_t>(p.role)];
    const float size = px(p.size) * factor_[static_cast<std::size_t>(p.role)];
    if (!(size >= 1)) return;  // a view of no size; Dear ImGui rounds to whole pixels and has no glyphs of none
    const float width = font->CalcTextSizeA(size, 1e9f, 0, p.utf8.c_str()).x;
    const CapSpan cap = cap_span(font, size);
    const ImVec2 offset{p.anchor == Anchor::start    ? 0
                        : p.anchor == Anchor::middle ? -width / 2
                                                     : -width,
                        p.baseline == Baseline::alphabetic ? -cap.bottom
                        : p.baseline == Baseline::middle   ? -(cap.top + cap.bottom) / 2
                                                           : -cap.top};
    if (p.angle != 0) return rotated(p, font, size, offset);
    const ImVec2 pos = at(p.at);
    list_.AddText(font, size, snap({pos.x + offset.x, pos.y + offset.y}), to_imgui(p.colour), p.utf8.c_str());
  }
  void operator()(const Image&) {}  // drawn from its texture

 private:
  float px(double points) const { return static_cast<float>(points) * scale_; }
  float thickness(double points) const { return std::max(1.f, px(points)); }
  static ImVec2 snap(ImVec2 p) { return {std::round(p.x), std::round(p.y)}; }

  void dashed(ImVec2 a, ImVec2 b, ImU32 colour, float width, float dash) {
    const float dx = b.x - a.x, dy = b.y - a.y, length = std::sqrt(dx * dx + dy * dy);
    for (float s = 0; s < length; s += 2 * dash) {
      const float from = s / length, to = std::min(s + dash, length) / length;
      list_.AddLine({a.x + dx * from, a.y + dy * from}, {a.x + dx * to, a.y + dy * to}, colour, width);
    }
  }

  /// AddText drops what lies outside the clip rectangle before it is turned: so write at a safe place, then move the
  /// vertices where they belong.
  void rotated(const Text& p, ImFont* font, float size, ImVec2 offset) {
    const ImVec2 safe{8, 8}, pivot = at(p.at);
    list_.PushClipRectFullScreen();
    const int first = list_.VtxBuffer.Size;
    list_.AddText(font, size, safe, to_imgui(p.colour), p.utf8.c_str());
    const float radians = static_cast<float>(-p.angle * std::numbers::pi / 180), c = std::cos(radians),
                s = std::sin(radians);
    for (int i = first; i < list_.VtxBuffer.Size; ++i) {
      ImVec2& v = list_.VtxBuffer[i].pos;
      const float x = v.x - safe.x + offset.x, y = v.y - safe.y + offset.y;
      v = {pivot.x + x * c - y * s, pivot.y + x * s + y * c};
    }
    list_.PopClipRect();
  }

  ImDrawList& list_;
  ImVec2 origin_;
  float scale_;
  std::array<ImFont*, 3> fonts_{};
  std::array<float, 3> factor_{};
};

}  // namespace

void FigureDrawing::set(Figure figure) {
  figure_ = std::move(figure);
  std::size_t n = 0;
  for (const Primitive& item : figure_.items) {
    const auto* image = std::get_if<Image>(&item);
    if (image == nullptr) continue;
    if (n == images_.size()) images_.emplace_back(*textures_);
    images_[n++].set(*image);
  }
  while (images_.size() > n) images_.pop_back();
}

void FigureDrawing::draw(ImDrawList& list, ImVec2 origin, float scale, const Theme& theme) const {
  Pen pen(list, origin, scale, theme);
  std::size_t n = 0;
  for (const Primitive& item : figure_.items) {
    if (const auto* image = std::get_if<Image>(&item)) {
      images_[n++].draw(list, pen.at({image->box.x, image->box.y}), pen.at({image->box.right(), image->box.bottom()}));
    } else {
      std::visit(pen, item);
    }
  }
}

}  // namespace kvscope::views
