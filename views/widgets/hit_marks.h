#pragma once
// Where something was found, along an axis of tokens.

#include <imgui.h>

#include <vector>

#include "views/figure/token_span.h"
#include "views/frame/theme.h"

namespace kvscope::views {

/// A mark over [min.y, max.y] for every pixel, or token where it is wider, that has a hit. Costs the pixels, not the hits.
inline void draw_hit_marks(const Theme& theme, const std::vector<std::int32_t>* hits, TokenSpan span, ImVec2 min,
                           ImVec2 max) {
  if (hits == nullptr || hits->empty() || max.x <= min.x) return;
  const SpanCells cells(span, static_cast<int>(max.x - min.x));
  const float width = (max.x - min.x) / static_cast<float>(cells.cells);
  auto hit = std::lower_bound(hits->begin(), hits->end(), span.begin);
  while (hit != hits->end() && *hit < span.end) {
    const int cell = cells.of(*hit);
    const float x = std::floor(min.x + static_cast<float>(cell) * width);
    ImGui::GetWindowDrawList()->AddRectFilled({x, min.y}, {x + std::max(1.f, width - 1), max.y},
                                              to_imgui(theme.palette.warn));
    hit = std::lower_bound(hit, hits->end(), cells.begin(cell + 1));
  }
}

}  // namespace kvscope::views
