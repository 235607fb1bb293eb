#include "views/widgets/span_mouse.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

void SpanMouse::handle(ViewContext& context, ImVec2 min, ImVec2 max, bool hovered, Shows shows, bool with_rows) {
  if (!drawable(context.a) || max.x <= min.x) return;
  const RunRecord& run = *context.a->run;
  if (button_ >= 0) drag(context, min, max, shows, with_rows);
  if (!hovered) return;
  wheel(context, min, max, shows, with_rows);
  for (const int button : {ImGuiMouseButton_Right, ImGuiMouseButton_Middle}) {
    if (!ImGui::IsMouseClicked(button)) continue;
    button_ = button;
    span_ = shown_span(*context.selection, run.n_tokens());
    rows_ = shown_rows(*context.selection, run.n_tokens());
  }
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    context.selection->rows = {};
    show_span(*context.selection, {}, run);
  }
}

void SpanMouse::handle_part(ViewContext& context, ImVec2 min, ImVec2 max, bool hovered, TokenSpan drawn) {
  if (!drawable(context.a) || drawn.empty()) return;
  const TokenSpan span = shown_span(*context.selection, context.a->run->n_tokens());
  const float token = (max.x - min.x) / static_cast<float>(drawn.size());
  min.x -= static_cast<float>(drawn.begin - span.begin) * token;
  max.x = min.x + static_cast<float>(span.size()) * token;
  handle(context, min, max, hovered);
}

bool drag_brush(Selection& selection, std::int32_t token, bool hovered) {
  static std::int32_t from = -1;  // one mouse, one drag
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) from = -1;
  if (hovered && token >= 0 && ImGui::GetIO().KeyShift && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    from = token;
    selection.brush = {};
  }
  if (from < 0) return false;
  if (hovered && token >= 0 && token != from) selection.brush = {std::min(from, token), std::max(from, token) + 1};
  return true;
}

void SpanMouse::wheel(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, bool with_rows) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.MouseWheel == 0 && io.MouseWheelH == 0) return;
  Selection& selection = *context.selection;
  const RunRecord& run = *context.a->run;
  const int n = run.n_tokens();
  const TokenSpan span = shown_span(selection, n);
  const double x = std::clamp((io.MousePos.x - min.x) / (max.x - min.x), 0.f, 1.f);
  const double factor = std::pow(kZoomStep, io.MouseWheel);
  const float sideways = io.MouseWheelH != 0 ? io.MouseWheelH : io.KeyShift ? io.MouseWheel : 0;
  if (sideways != 0) {
    show_span(selection, pan_span(span, n, -sideways * kPanStep * span.size()), run);
  } else if (io.KeyCtrl && with_rows) {
    const double y = std::clamp((max.y - io.MousePos.y) / std::max(1.f, max.y - min.y), 0.f, 1.f);
    const TokenSpan rows = zoom_span(shown_rows(selection, n), n, factor, y);
    selection.rows = rows.size() >= n ? TokenSpan{} : rows;
  } else {
    const double at = shows == Shows::view ? x : std::clamp((x * n - span.begin) / span.size(), 0.0, 1.0);
    show_span(selection, zoom_span(span, n, factor, at), run);
  }
}

void SpanMouse::drag(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, bool with_rows) {
  if (!ImGui::IsMouseDown(button_)) {
    button_ = -1;
    return;
  }
  const ImVec2 moved = ImGui::GetMouseDragDelta(button_, 0);
  if (moved.x == 0 && moved.y == 0) return;
  const RunRecord& run = *context.a->run;
  const int n = run.n_tokens();
  const double share = moved.x / (max.x - min.x);
  show_span(*context.selection, pan_span(span_, n, shows == Shows::view ? -share * span_.size() : share * n), run);
  if (!with_rows || rows_.size() >= n) return;
  context.selection->rows = pan_span(rows_, n, moved.y / std::max(1.f, max.y - min.y) * rows_.size());
}

std::string tokens_per_pixel(TokenSpan span, float width) {
  if (static_cast<float>(span.size()) <= width) return "";
  const double n = static_cast<double>(span.size()) / std::max(1.f, width);
  return fixed_text(n, n < 9.95 ? 1 : 0) + " tokens/px";
}

void tokens_per_pixel_mark(const ViewServices& services, const char* item, TokenSpan span, float width, ImVec2 corner,
                           bool at_left) {
  const std::string text = tokens_per_pixel(span, width);
  if (text.empty()) return;
  const Theme& theme = *services.theme;
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const float w = text_width(font, text.c_str()), pad = theme.px(5);
  const ImVec2 min{at_left ? corner.x : corner.x - w - 2 * pad, corner.y},
      max{min.x + w + 2 * pad, corner.y + font_size(font) + theme.px(2)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(min, max, to_imgui(with_alpha(theme.palette.raised, 225)), theme.px(3));
  list.AddText(font, font_size(font), {min.x + pad, min.y + theme.px(1)}, to_imgui(theme.palette.muted), text.c_str());
  services.items->add_text(item, item_rect(min, max), text);
}

}  // namespace kvscope::views
