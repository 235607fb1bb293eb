#include "views/widgets/span_mouse.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

void SpanMouse::handle(ViewContext& context, ImVec2 min, ImVec2 max, bool hovered, Shows shows, const RowAxis* rows) {
  if (!drawable(context.a) || max.x <= min.x) return;
  const RunRecord& run = *context.a->run;
  if (button_ >= 0) drag(context, min, max, shows, rows);
  if (!hovered) return;
  wheel(context, min, max, shows, rows);
  for (const int button : {ImGuiMouseButton_Right, ImGuiMouseButton_Middle, ImGuiMouseButton_Left}) {
    const bool drags = button != ImGuiMouseButton_Left || (rows != nullptr && rows->left_drags);
    if (!drags || !ImGui::IsMouseClicked(button)) continue;
    button_ = button;
    span_ = shown_span(*context.selection, run.n_tokens());
    if (rows != nullptr) rows_ = clamp_span(*rows->rows, rows->n);
  }
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    show_all(*context.selection, run);
    if (rows != nullptr) *rows->rows = {};
    if (button_ == ImGuiMouseButton_Left) button_ = -1;  // else its drag would take back what it began with
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

void SpanMouse::wheel(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, const RowAxis* rows) {
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
    return;
  }
  if (rows != nullptr && io.KeyCtrl != rows->with_time) {
    const float below = std::clamp((io.MousePos.y - min.y) / std::max(1.f, max.y - min.y), 0.f, 1.f);
    const TokenSpan zoomed = zoom_span(*rows->rows, rows->n, factor, rows->from_top ? below : 1 - below, rows->least);
    *rows->rows = zoomed.size() >= rows->n ? TokenSpan{} : zoomed;
  }
  if (rows == nullptr || rows->with_time || !io.KeyCtrl) {
    const double at = shows == Shows::view ? x : std::clamp((x * n - span.begin) / span.size(), 0.0, 1.0);
    show_span(selection, zoom_span(span, n, factor, at), run);
  }
}

void SpanMouse::drag(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, const RowAxis* rows) {
  if (!ImGui::IsMouseDown(button_)) {
    button_ = -1;
    return;
  }
  // A click of the left button may shake a little.
  const ImVec2 moved = ImGui::GetMouseDragDelta(button_, button_ == ImGuiMouseButton_Left ? -1.f : 0.f);
  if (moved.x == 0 && moved.y == 0) return;
  const RunRecord& run = *context.a->run;
  const int n = run.n_tokens();
  const double share = moved.x / (max.x - min.x);
  show_span(*context.selection, pan_span(span_, n, shows == Shows::view ? -share * span_.size() : share * n), run);
  if (rows == nullptr || rows_.size() >= rows->n) return;
  const double down = moved.y / std::max(1.f, max.y - min.y) * rows_.size();
  *rows->rows = pan_span(rows_, rows->n, rows->from_top ? -down : down);
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
