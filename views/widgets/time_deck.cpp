#include "views/widgets/time_deck.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "views/figure/figure_builder.h"
#include "views/figure/state_colours.h"
#include "views/widgets/chrome.h"
#include "views/widgets/deck_picture.h"
#include "views/widgets/hit_marks.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/pin_marks.h"

namespace kvscope::views {
namespace {

constexpr int kSpeeds[] = {8, 30, 120, 500};  // queries a second
constexpr float kControls = 28, kStrip = 16, kLane = 12, kAxis = 16, kLeastMap = 24,
                kLeastLabelled = 40;  // design pixels

/// A word of the strip, after its colour if it has one.
struct Entry {
  std::string text;
  Colour colour{0, 0, 0, 0};
};

/// What the map's colours and heights are.
std::vector<Entry> entries_of(const RunRecord& run, int most_cached, int most_evicted, bool dark, bool with_states) {
  if (most_cached == 0) return {{"cache is empty"}};
  std::vector<Entry> entries;
  if (with_states) {
    entries = {{"sinks", state_colour(TokenState::sink, dark)},
               {"kept", state_colour(TokenState::kept, dark)},
               {"window", state_colour(TokenState::window, dark)}};
  }
  entries.push_back({"peak " + std::to_string(most_cached) + " tokens"});
  if (most_evicted == 0) {
    entries.push_back({run.status == RunStatus::running ? "no evictions yet" : "no evictions"});
  } else {
    entries.push_back(
        {"peak " + std::to_string(most_evicted) + (most_evicted == 1 ? " eviction" : " evictions") + " per query",
         eviction_colour(dark)});
  }
  return entries;
}

}  // namespace

TimeDeck::TimeDeck(const ViewServices& services) : services_(services), map_(*services.textures) {}

void TimeDeck::draw(ViewContext& context, float height) {
  const Theme& theme = *services_.theme;
  const bool full = drawable(context.a) && height >= theme.px(kControls + kLane + kLeastMap + kAxis);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  if (full) draw_controls(context, theme.px(kControls - 4));
  const float strip = strip_height(height, full), lane = full ? theme.px(kLane) : 0;
  const float y = top.y + (full ? theme.px(kControls) : 0) + strip;
  const float right = top.x + std::max(theme.px(40), ImGui::GetContentRegionAvail().x);
  const int n = drawable(context.a) ? context.a->run->n_tokens() : 1;
  const Area map{{top.x, y + lane}, {right, top.y + height - (full ? theme.px(kAxis) : 0)}, n};
  ImGui::SetCursorScreenPos(map.min);
  draw_map(context, map);
  if (!drawable(context.a)) return;
  if (full) {
    const Area bar{{top.x, y}, {right, y + lane - theme.px(2)}, n};
    ImGui::SetCursorScreenPos(bar.min);
    draw_viewport(context, bar, map);
    draw_axis(context, map);
  }
  draw_hit_marks(*services_.theme, context.hits, {0, n}, {map.min.x, map.min.y + theme.px(1)},
                 {map.max.x, map.min.y + theme.px(8)});
  PinMarks(services_, context, "deck").columns({0, n}, map.min, map.max);
  if (strip > 0) draw_strip(context, {top.x, y - strip}, right);
  draw_playhead(context, map);
}

void TimeDeck::draw_controls(ViewContext& context, float height) {
  const Theme& theme = *services_.theme;
  const FontScope font(theme.fonts.small);
  Selection& selection = *context.selection;
  const RunRecord& run = *context.a->run;
  const auto button = [&](const char* label, const char* item, const char* hint, bool on = false) {
    if (on) ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(theme.palette.accent));
    const bool pressed = ImGui::Button(label, {0, height});
    if (on) ImGui::PopStyleColor();
    services_.items->add_text(item, last_item(), label);
    hint_of(services_, hint);
    ImGui::SameLine(0, theme.px(3));
    return pressed;
  };
  const std::int32_t q = context.q();
  if (button(selection.play.on ? "Pause" : "Play", "timeline.play",
             selection.play.on ? "Stop at this query (Space)" : "Play query by query (Space)", selection.play.on))
    selection.play.on = !selection.play.on, selection.play.carry = 0;
  if (button("<", "timeline.back", "Go back one query (,)")) scrub_to(selection, q - 1, run);
  if (button(">", "timeline.on", "Go forward one query (.)")) scrub_to(selection, q + 1, run);
  const std::string speed = std::to_string(selection.play.speed) + " queries/s";
  if (button(speed.c_str(), "timeline.speed", "Playback speed. Click for the next one")) {
    const auto* next = std::ranges::upper_bound(kSpeeds, selection.play.speed);
    selection.play.speed = next == std::end(kSpeeds) ? kSpeeds[0] : *next;
  }
  if (button("Loop", "timeline.loop", "Repeat the range that is shown, or the marked one", selection.play.loop))
    selection.play.loop = !selection.play.loop;
  ImGui::SameLine(0, theme.px(12));
  if (button("Go to", "timeline.go_to", "Go to a token or query by number (Ctrl+G)") && context.command)
    context.command("go.to");
  if (button("Find", "timeline.find", "Find tokens by text or by state (/)") && context.command)
    context.command("find.open");
  if (button("Record", "timeline.record", "Make a GIF or video of what is shown (Shift+F12)") && context.command)
    context.command("film.record");
  const bool zoomed = !selection.view.empty() || !selection.rows.empty() || !selection.lifetimes.rows.empty();
  if (zoomed && button("Fit", "timeline.fit", "Show the whole run (F)")) show_all(selection, run);
  const bool live = !selection.q;
  const char* label = live ? "live" : "go live";
  const float width = theme.px(64), right = right_edge();
  draw_range_text(context, right - width - theme.px(10));
  ImGui::SameLine(right - width);
  ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(live ? theme.palette.accent : theme.palette.muted));
  if (ImGui::Button(label, {width, height})) follow_end(selection, run);
  ImGui::PopStyleColor();
  services_.items->add("timeline.live", last_item());
  hint_of(services_, live ? "Following the newest query of the run" : "Go to the newest query and follow the run");
}

/// What the views show, where there is room for it.
void TimeDeck::draw_range_text(const ViewContext& context, float right) {
  const int n = context.a->run->n_tokens();
  const TokenSpan span = shown_span(*context.selection, n);
  std::string text = span.size() >= n ? std::to_string(n) + " queries"
                                      : "queries " + std::to_string(span.begin) + "–" + std::to_string(span.end - 1) +
                                            " of " + std::to_string(n);
  const float left = right - ImGui::CalcTextSize(text.c_str()).x;
  if (left < ImGui::GetCursorPosX()) return;
  ImGui::SameLine(left);
  const float y = ImGui::GetCursorPosY();
  ImGui::SetCursorPosY(y + services_.theme->px(4));
  text_in(services_.theme->palette.muted, text);
  services_.items->add_text("timeline.range", last_item(), text);
  ImGui::SameLine();
  ImGui::SetCursorPosY(y);
}

void TimeDeck::draw_map(ViewContext& context, const Area& map) {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(map.min, map.max, to_imgui(theme.palette.panel), theme.px(3));
  if (drawable(context.a)) draw_mini_map(context, map);
  list.AddRect(map.min, map.max, to_imgui(theme.palette.border), theme.px(3));
  ImGui::InvisibleButton("scrub", {map.width(), std::max(1.f, map.max.y - map.min.y)});
  services_.items->add("timeline.scrub", item_rect(map.min, map.max));
  if (!drawable(context.a)) return;
  const bool hovered = ImGui::IsItemHovered();
  if (ImGui::IsItemActive()) {
    context.selection->play.on = false;
    scrub_to(*context.selection, static_cast<std::int32_t>(map.token(ImGui::GetIO().MousePos.x)), *context.a->run);
  }
  mouse_.handle(context, map.min, map.max, hovered, SpanMouse::Shows::run);
}

void TimeDeck::draw_mini_map(ViewContext& context, const Area& map) {
  const RunRecord& run = *context.a->run;
  const Cursor cursor = context.cursor_in(run);
  const int columns = std::max(1, static_cast<int>(map.width()));
  if (rebuild_.due({RunKey(context.a), cursor.layer, cursor.kv_head, columns, services_.theme->dark})) {
    DeckPicture picture = deck_picture(run, cursor.layer, cursor.kv_head, columns, *services_.theme);
    most_cached_ = picture.most_cached, most_evicted_ = picture.most_evicted;
    map_.set(std::move(picture.image));
    rebuild_.done();
  }
  map_.draw(*ImGui::GetWindowDrawList(), {map.min.x, map.min.y + 2}, {map.max.x, map.max.y - 1});
  for (std::size_t i = 0; i < run.changes.size(); ++i) draw_flag(context, static_cast<int>(i), map);
  if (run.prompt_len > 0 && run.prompt_len < run.n_tokens()) {  // where the answer begins
    const float x = std::floor(map.x(run.prompt_len));
    ImGui::GetWindowDrawList()->AddLine({x, map.min.y}, {x, map.max.y}, to_imgui(services_.theme->palette.muted));
  }
}

/// None where it would take the map's room.
float TimeDeck::strip_height(float height, bool full) const {
  const Theme& theme = *services_.theme;
  return full && height >= theme.px(kControls + kStrip + kLane + kLeastLabelled + kAxis) ? theme.px(kStrip) : 0;
}

/// Over the map, so that nothing of it is covered: its colours and heights, and at the right how many queries share a pixel.
void TimeDeck::draw_strip(const ViewContext& context, ImVec2 min, float right) {
  const Theme& theme = *services_.theme;
  const RunRecord& run = *context.a->run;
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const float size = font_size(font) * 0.9f, side = size * 0.7f, gap = theme.px(12);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto width_of = [&](const std::string& text) { return text_width(font, text.c_str()) * 0.9f; };
  const std::string per_pixel = tokens_per_pixel({0, run.n_tokens()}, right - min.x);
  const float free_to = right - (per_pixel.empty() ? 0 : width_of(per_pixel) + gap);
  const auto write = [&](float x, const std::string& text) {
    list.AddText(font, size, {x, min.y}, to_imgui(theme.palette.muted), text.c_str());
  };
  if (!per_pixel.empty()) {
    const float x = right - width_of(per_pixel);
    write(x, per_pixel);
    services_.items->add_text("timeline.deck_tokens_per_pixel", item_rect({x, min.y}, {right, min.y + size}),
                              per_pixel);
  }
  for (const bool with_states : {true, false}) {  // without the states where all do not fit
    const std::vector<Entry> entries = entries_of(run, most_cached_, most_evicted_, theme.dark, with_states);
    const auto swatch = [&](const Entry& entry) { return entry.colour.a > 0 ? side + theme.px(4) : 0; };
    float width = -gap;
    for (const Entry& entry : entries) width += swatch(entry) + width_of(entry.text) + gap;
    if (min.x + width > free_to) continue;
    float x = min.x;
    std::string all;
    for (const Entry& entry : entries) {
      const ImVec2 a{x, min.y + (size - side) / 2};
      if (entry.colour.a > 0) list.AddRectFilled(a, {a.x + side, a.y + side}, to_imgui(entry.colour));
      write(x + swatch(entry), entry.text);
      x += swatch(entry) + width_of(entry.text) + gap;
      all += (all.empty() ? "" : ", ") + entry.text;
    }
    services_.items->add_text("timeline.heights", item_rect(min, {x - gap, min.y + size}), all);
    return;
  }
}

/// Where the policy was changed.
void TimeDeck::draw_flag(const ViewContext& context, int index, const Area& map) {
  const PolicyChange& change = context.a->run->changes[static_cast<std::size_t>(index)];
  if (change.q >= map.n) return;
  const Theme& theme = *services_.theme;
  const float x = std::floor(map.x(change.q)), side = theme.px(8);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddLine({x, map.min.y}, {x, map.max.y}, to_imgui(theme.palette.warn));
  list.AddTriangleFilled({x, map.min.y}, {x + side, map.min.y + side / 2}, {x, map.min.y + side},
                         to_imgui(theme.palette.warn));
  services_.items->add("timeline.flag", index, item_rect({x, map.min.y}, {x + side, map.min.y + side}));
}

void TimeDeck::draw_axis(const ViewContext&, const Area& map) {
  const Theme& theme = *services_.theme;
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  float free_from = map.min.x;
  for (const double v : nice_values(0, map.n, std::max(2, static_cast<int>(map.width() / theme.px(110))), true)) {
    const std::string text = std::to_string(std::lround(v));
    const float w = text_width(font, text.c_str()), x = map.x(v);
    const float left = std::clamp(x - w / 2, map.min.x, map.max.x - w);
    if (left < free_from) continue;
    list.AddLine({x, map.max.y}, {x, map.max.y + theme.px(3)}, to_imgui(theme.palette.faint));
    list.AddText(font, font_size(font) * 0.9f, {left, map.max.y + theme.px(2)}, to_imgui(theme.palette.faint),
                 text.c_str());
    free_from = left + w + theme.px(8);
  }
}

void TimeDeck::draw_viewport(ViewContext& context, const Area& lane, const Area& map) {
  const Theme& theme = *services_.theme;
  const float height = lane.max.y - lane.min.y;
  ImGui::InvisibleButton("viewport", {lane.width(), std::max(1.f, height)});
  const bool hovered = ImGui::IsItemHovered();
  drag_viewport(context, lane);
  mouse_.handle(context, lane.min, lane.max, hovered, SpanMouse::Shows::run);
  const TokenSpan span = shown_span(*context.selection, lane.n);
  const float left = lane.x(span.begin), right = std::max(lane.x(span.end), left + theme.px(3));
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(lane.min, lane.max, to_imgui(theme.palette.background), height / 2);
  const Colour thumb = hovered || grip_ != Grip::none ? theme.palette.accent : theme.palette.faint;
  list.AddRectFilled({left, lane.min.y}, {right, lane.max.y}, to_imgui(thumb), height / 2);
  services_.items->add("timeline.viewport", item_rect({left, lane.min.y}, {right, lane.max.y}));
  if (span.size() >= lane.n) return;
  // Outside of what is shown the map is dimmed.
  const ImU32 dim = to_imgui(with_alpha(theme.palette.background, 150));
  list.AddRectFilled(map.min, {left, map.max.y}, dim);
  list.AddRectFilled({right, map.min.y}, map.max, dim);
  for (const float x : {left, right}) list.AddLine({x, map.min.y}, {x, map.max.y}, to_imgui(theme.palette.accent));
}

void TimeDeck::drag_viewport(ViewContext& context, const Area& lane) {
  if (!ImGui::IsItemActive() && !ImGui::IsItemHovered()) {
    grip_ = Grip::none;
    return;
  }
  const RunRecord& run = *context.a->run;
  const TokenSpan span = shown_span(*context.selection, lane.n);
  const float x = ImGui::GetIO().MousePos.x, reach = services_.theme->px(6);
  const double token = lane.token(x);
  const float left = lane.x(span.begin), right = lane.x(span.end);
  const bool wide = right - left > 3 * reach;
  const Grip under = x < left + (wide ? reach : 0) && x > left - reach     ? Grip::begin
                     : x > right - (wide ? reach : 0) && x < right + reach ? Grip::end
                                                                           : Grip::body;
  if (under != Grip::body || grip_ == Grip::begin || grip_ == Grip::end)
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (!ImGui::IsItemActive()) {
    grip_ = Grip::none;
    return;
  }
  if (ImGui::IsItemActivated()) {
    grip_ = under, grip_span_ = span, grip_token_ = token;
    if (under == Grip::body && !span.contains(static_cast<std::int32_t>(token)))  // beside it: it comes there
      grip_span_ = pan_span(span, lane.n, token - (span.begin + span.end) / 2.0);
  }
  const auto by = static_cast<std::int32_t>(std::lround(token - grip_token_));
  const int least = std::min(kLeastSpan, lane.n);
  TokenSpan next = grip_span_;
  if (grip_ == Grip::begin) next.begin = std::clamp(next.begin + by, 0, next.end - least);
  if (grip_ == Grip::end) next.end = std::clamp(next.end + by, next.begin + least, lane.n);
  if (grip_ == Grip::body) next = pan_span(grip_span_, lane.n, by);
  show_span(*context.selection, next, run);
}

void TimeDeck::draw_playhead(ViewContext& context, const Area& map) {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float x = std::floor(map.x(context.q() + 0.5));
  list.AddRectFilled({x - theme.px(1), map.min.y - theme.px(2)}, {x + theme.px(1), map.max.y + theme.px(2)},
                     to_imgui(theme.palette.text));
  list.AddCircleFilled({x, map.min.y}, theme.px(4), to_imgui(theme.palette.text));
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const std::string q = "q " + std::to_string(context.q());
  const float w = text_width(font, q.c_str()), pad = theme.px(4);
  const float left = x + theme.px(5) + w + 2 * pad < map.max.x ? x + theme.px(5) : x - theme.px(5) - w - 2 * pad;
  list.AddRectFilled({left, map.min.y + theme.px(2)}, {left + w + 2 * pad, map.min.y + theme.px(4) + font_size(font)},
                     to_imgui(with_alpha(theme.palette.raised, 235)), theme.px(3));
  list.AddText(font, font_size(font), {left + pad, map.min.y + theme.px(3)}, to_imgui(theme.palette.text), q.c_str());
  services_.items->add("timeline.playhead", item_rect({x - theme.px(4), map.min.y}, {x + theme.px(4), map.max.y}));
}

}  // namespace kvscope::views
