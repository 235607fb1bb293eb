#include "views/cache_timeline_view.h"

#include <algorithm>
#include <cmath>

#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr int kWindowSide = 1024;  // cells of the lifelines on the screen

}  // namespace

void CacheTimelineView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.cache_timeline", "No cache yet",
                "Run the model on a prompt, or open a trace: the selected head's cache appears here, query by query.",
                "Run", "run.start");
    return;
  }
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  log_.update(*context.a, at);
  draw_why(context, at);
  const float room = ImGui::GetContentRegionAvail().y;
  const float log = log_.n_rows() == 0 ? services_.theme->px(44)
                                       : std::clamp(room * 0.34f, services_.theme->px(70), services_.theme->px(230));
  draw_picture(context, at, std::max(services_.theme->px(80), room - log - ImGui::GetStyle().ItemSpacing.y));
  log_.draw(context, at);
}

std::optional<ViewFigure> CacheTimelineView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const Cursor at = context.cursor_in(*context.a->run);
  return ViewFigure{TimelineOptions{at.layer, at.kv_head, occupancy_, context.a->preview}, {context.a->run}};
}

void CacheTimelineView::draw_why(const ViewContext& context, const Cursor& at) {
  const Palette& p = services_.theme->palette;
  draw_text(services_.theme->fonts.bold, p.text, head_title(context));
  if (at.token < 0) {
    text_in(p.muted, "Click a token to read why it was kept or evicted.");
  } else {
    wrapped_text_in(p.text, why_.of(*context.a, at));
  }
  services_.items->add_text("timeline.why", last_item(), at.token < 0 ? "" : why_.of(*context.a, at));
}

void CacheTimelineView::draw_picture(ViewContext& context, const Cursor& at, float height) {
  const ImVec2 room{ImGui::GetContentRegionAvail().x, height};
  if (room.x < services_.theme->px(120)) return;
  const PictureKey key{RunKey(context.a),     at.layer,          at.kv_head, room.x, room.y, services_.theme->scale,
                       services_.theme->dark, context.a->preview};
  occupancy_ = room.y > services_.theme->px(180);
  if (rebuild_.due(key)) {
    const TimelineOptions options{at.layer, at.kv_head, occupancy_, context.a->preview};
    drawing_.set(
        timeline_figure(*context.a->run, options, services_.theme->figure_style(room.x, room.y), kWindowSide).figure);
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("timeline", room);
  draw_cursor(context, at, origin);
  handle_mouse(context, origin);
  if (context.a->preview)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void CacheTimelineView::draw_cursor(const ViewContext& context, const Cursor& at, ImVec2 origin) {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float n = static_cast<float>(context.a->run->n_tokens());
  for (const Panel& panel : drawing_.figure().panels) {
    const ImVec2 a{origin.x + static_cast<float>(panel.box.x), origin.y + static_cast<float>(panel.box.y)};
    const ImVec2 b{origin.x + static_cast<float>(panel.box.right()), origin.y + static_cast<float>(panel.box.bottom())};
    services_.items->add(panel.id == "lifelines" ? "timeline.lifelines" : "timeline.occupancy", item_rect(a, b));
    const float x = std::floor(a.x + (static_cast<float>(at.q) + 0.5f) / n * (b.x - a.x));
    list.AddLine({x, a.y}, {x, b.y}, to_imgui(theme.palette.accent), theme.px(1.5f));
    const auto mark = [&](int token, Colour colour) {
      if (token < 0 || panel.id != "lifelines") return;
      const float y = std::floor(b.y - (static_cast<float>(token) + 0.5f) / n * (b.y - a.y));
      list.AddLine({a.x, y}, {b.x, y}, to_imgui(colour), theme.px(1));
    };
    mark(context.selection->hovered_token < context.a->run->n_tokens() ? context.selection->hovered_token : -1,
         with_alpha(theme.palette.accent, 150));
    mark(at.token, theme.palette.text);
  }
}

void CacheTimelineView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const RunRecord& run = *context.a->run;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point at{mouse.x - origin.x, mouse.y - origin.y};
  if (!ImGui::IsItemHovered() && !ImGui::IsItemActive()) return;
  for (const Panel& panel : drawing_.figure().panels) {
    if (!panel.box.contains(at)) continue;
    const int n = run.n_tokens();
    const int q = std::clamp(static_cast<int>((at.x - panel.box.x) / panel.box.w * n), 0, n - 1);
    const int t = std::clamp(static_cast<int>((panel.box.bottom() - at.y) / panel.box.h * n), 0, n - 1);
    if (panel.id == "occupancy") {
      if (ImGui::IsItemActive()) context.selection->q = q;
      continue;
    }
    if (t > q) continue;  // not born yet
    context.selection->hovered_token = t;
    const Cursor cursor = context.cursor_in(run);
    ImGui::BeginTooltip();
    ImGui::TextUnformatted(identity_line(run, cursor.layer, cursor.kv_head, t).c_str());
    text_in(services_.theme->palette.muted, life_line(run, cursor.layer, cursor.kv_head, t));
    ImGui::EndTooltip();
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.selection->token = t;
  }
}

}  // namespace kvscope::views
