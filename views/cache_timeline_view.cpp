#include "views/cache_timeline_view.h"

#include <algorithm>
#include <cmath>

#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

Point at_mouse(ImVec2 origin) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  return {mouse.x - origin.x, mouse.y - origin.y};
}

std::int32_t token_of(double share, TokenSpan span) {
  return std::clamp(span.begin + static_cast<std::int32_t>(share * span.size()), span.begin, span.end - 1);
}

}  // namespace

void CacheTimelineView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.cache_timeline", "No cache yet",
                "Run a prompt or open a trace to see the selected head's cache, query by query.", "Run", "run.start");
    return;
  }
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  log_.update(*context.a, at);
  const float whole = ImGui::GetContentRegionAvail().y;
  draw_why(context, at, whole);
  const float room = ImGui::GetContentRegionAvail().y;
  // Where there is room for one of them only, that is the picture: the log is there when the view is maximised.
  if (room < services_.theme->px(170)) return draw_picture(context, at, std::max(services_.theme->px(80), room));
  const float log = log_.n_rows() == 0 ? services_.theme->px(44)
                                       : std::clamp(whole * 0.29f, services_.theme->px(70), services_.theme->px(230));
  draw_picture(context, at, std::max(services_.theme->px(80), room - log - ImGui::GetStyle().ItemSpacing.y));
  log_.draw(context, at);
}

std::optional<ViewFigure> CacheTimelineView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const Cursor at = context.cursor_in(*context.a->run);
  return ViewFigure{options(context, at), {context.a->run}};
}

TimelineOptions CacheTimelineView::options(const ViewContext& context, const Cursor& at) const {
  TimelineOptions options{at.layer, at.kv_head, occupancy_, context.a->preview};
  const int n = context.a->run->n_tokens();
  const TokenSpan queries = shown_span(*context.selection, n), tokens = shown_rows(*context.selection, n);
  if (queries.size() < n) options.first = queries.begin, options.count = queries.size();
  if (tokens.size() < n) options.token_first = tokens.begin, options.token_count = tokens.size();
  return options;
}

/// In lines that are there without a token as well: neither picture nor log moves by a click. The inspector has the whole.
void CacheTimelineView::draw_why(const ViewContext& context, const Cursor& at, float height) {
  const Palette& p = services_.theme->palette;
  draw_text(services_.theme->fonts.bold, p.text, head_title(context));
  const int n_lines = height < services_.theme->px(300) ? 2 : height < services_.theme->px(560) ? 3 : 6;
  if (at.token < 0) {
    lines_of_text(services_, p.muted, "Click a token to read why it was kept or evicted.", n_lines);
  } else {
    lines_of_text(services_, p.text, why_.of(*context.a, at), n_lines);
  }
  services_.items->add_text("timeline.why", last_item(), at.token < 0 ? "" : why_.of(*context.a, at));
}

void CacheTimelineView::draw_picture(ViewContext& context, const Cursor& at, float height) {
  const ImVec2 room{ImGui::GetContentRegionAvail().x, height};
  if (room.x < services_.theme->px(120)) return;
  occupancy_ = room.y > services_.theme->px(180);
  const PictureKey key{RunKey(context.a),      options(context, at), room.x, room.y,
                       services_.theme->scale, services_.theme->dark};
  // Where a person zooms or pans the picture follows at once: it is a pass over one head's tokens and one over the pixels.
  if (rebuild_.due(key, key.options != drawn_)) {
    drawing_.set(timeline_picture(*context.a->run, key.options, services_.theme->figure_style(room.x, room.y)));
    drawn_ = key.options;
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
  const int n = context.a->run->n_tokens();
  const TokenSpan queries = shown_span(*context.selection, n), tokens = shown_rows(*context.selection, n);
  for (const Panel& panel : drawing_.figure().panels) {
    const ImVec2 a{origin.x + static_cast<float>(panel.box.x), origin.y + static_cast<float>(panel.box.y)};
    const ImVec2 b{origin.x + static_cast<float>(panel.box.right()), origin.y + static_cast<float>(panel.box.bottom())};
    const bool lifelines = panel.id == "lifelines";
    services_.items->add(lifelines ? "timeline.lifelines" : "timeline.occupancy", item_rect(a, b));
    if (queries.contains(at.q)) {
      const float share = (static_cast<float>(at.q - queries.begin) + 0.5f) / static_cast<float>(queries.size());
      const float x = std::floor(a.x + share * (b.x - a.x));
      list.AddLine({x, a.y}, {x, b.y}, to_imgui(theme.palette.accent), theme.px(1.5f));
      services_.items->add("timeline.q", item_rect({x, a.y}, {x + 1, b.y}));
    }
    if (!lifelines) continue;
    const auto mark = [&](int token, Colour colour) {
      if (!tokens.contains(token)) return;
      const float share = (static_cast<float>(token - tokens.begin) + 0.5f) / static_cast<float>(tokens.size());
      const float y = std::floor(b.y - share * (b.y - a.y));
      list.AddLine({a.x, y}, {b.x, y}, to_imgui(colour), theme.px(1));
    };
    PinMarks(services_, context, "timeline").rows(tokens, a, b, at.layer, at.kv_head);
    mark(context.selection->hovered_token, with_alpha(theme.palette.accent, 150));
    mark(at.token, theme.palette.text);
    tokens_per_pixel_mark(services_, "timeline.tokens_per_pixel", queries, b.x - a.x,
                          {a.x + theme.px(3), a.y + theme.px(3)}, true);  // no token is there: they came later
  }
}

void CacheTimelineView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const RunRecord& run = *context.a->run;
  const Point at = at_mouse(origin);
  const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
  const TokenSpan queries = shown_span(*context.selection, run.n_tokens());
  const TokenSpan tokens = shown_rows(*context.selection, run.n_tokens());
  if (const Panel* panel = drawing_.figure().panel("lifelines")) {
    const auto corner = [&](double x, double y) {
      return ImVec2{origin.x + static_cast<float>(x), origin.y + static_cast<float>(y)};
    };
    const RowAxis rows{&context.selection->rows, run.n_tokens()};
    mouse_.handle(context, corner(panel->box.x, panel->box.y), corner(panel->box.right(), panel->box.bottom()), hovered,
                  SpanMouse::Shows::view, &rows);
  }
  if (!hovered && !active) return;
  for (const Panel& panel : drawing_.figure().panels) {
    if (!panel.box.contains(at)) continue;
    const std::int32_t q = token_of((at.x - panel.box.x) / panel.box.w, queries);
    const std::int32_t t = token_of((panel.box.bottom() - at.y) / panel.box.h, tokens);
    if (panel.id == "occupancy") {
      if (active) scrub_to(*context.selection, q, run);
      continue;
    }
    if (t > q) continue;  // not born yet
    context.selection->hovered_token = t;
    context.selection->hover_told = true;
    const Cursor cursor = context.cursor_in(run);
    {
      const HoverCard card(services_);
      ImGui::TextUnformatted(identity_line(run, cursor.layer, cursor.kv_head, t).c_str());
      text_in(services_.theme->palette.muted, life_line(run, cursor.layer, cursor.kv_head, t));
    }
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.selection->token = t;
  }
}

}  // namespace kvscope::views
