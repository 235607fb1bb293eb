#include "views/widgets/time_deck.h"

#include <algorithm>
#include <cmath>

#include "views/figure/state_colours.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr int kColumns = 1024, kRows = 32;

/// Occupancy as a picture: sinks, long range and window stacked, one column a bin of queries.
Image occupancy_image(const RunRecord& run, int layer, int kv_head, bool dark) {
  const Occupancy occ = occupancy(run, layer, kv_head);
  const int n = static_cast<int>(occ.sinks.size()), columns = std::min(std::max(n, 1), kColumns);
  int highest = 1;
  for (int q = 0; q < n; ++q) highest = std::max(highest, occ.sinks[q] + occ.long_range[q] + occ.window[q]);
  Image image{{}, columns, kRows, std::vector<Colour>(static_cast<std::size_t>(columns) * kRows, Colour{0, 0, 0, 0})};
  for (int c = 0; c < columns && n > 0; ++c) {
    const int q = static_cast<int>(static_cast<std::int64_t>(c) * n / columns);
    const auto level = [&](int tokens) {
      return static_cast<int>(std::lround(static_cast<double>(tokens) / highest * kRows));
    };
    const int sinks = level(occ.sinks[q]), kept = level(occ.sinks[q] + occ.long_range[q]);
    const int all = level(occ.sinks[q] + occ.long_range[q] + occ.window[q]);
    for (int h = 0; h < all; ++h) {
      const TokenState state = h < sinks ? TokenState::sink : h < kept ? TokenState::kept : TokenState::window;
      image.pixels[static_cast<std::size_t>(kRows - 1 - h) * columns + c] = state_colour(state, dark);
    }
  }
  return image;
}

}  // namespace

TimeDeck::TimeDeck(const ViewServices& services) : services_(services), map_(*services.textures) {}

void TimeDeck::draw(ViewContext& context, float height) {
  const Theme& theme = *services_.theme;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float button = theme.px(64);
  const ImVec2 size{std::max(theme.px(40), ImGui::GetContentRegionAvail().x - button - theme.px(8)), height};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, to_imgui(theme.palette.panel), theme.px(3));
  if (drawable(context.a)) draw_mini_map(context, at, size);
  list.AddRect(at, {at.x + size.x, at.y + size.y}, to_imgui(theme.palette.border), theme.px(3));

  ImGui::InvisibleButton("scrub", size);
  services_.items->add("timeline.scrub", item_rect(at, {at.x + size.x, at.y + size.y}));
  if (drawable(context.a)) {
    if (ImGui::IsItemActive()) {
      const int n = context.a->run->n_tokens();
      context.selection->q =
          std::clamp(static_cast<int>((ImGui::GetIO().MousePos.x - at.x) / size.x * static_cast<float>(n)), 0, n - 1);
    }
    draw_playhead(context, at, size);
  }
  ImGui::SameLine(0, theme.px(8));
  const bool live = !context.selection->q;
  ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(live ? theme.palette.accent : theme.palette.muted));
  if (ImGui::Button(live ? "live" : "to live", {button, height})) context.selection->q.reset();
  ImGui::PopStyleColor();
  services_.items->add("timeline.live", last_item());
}

void TimeDeck::draw_mini_map(ViewContext& context, ImVec2 at, ImVec2 size) {
  const RunRecord& run = *context.a->run;
  const Cursor cursor = context.cursor_in(run);
  if (rebuild_.due({RunKey(context.a), cursor.layer, cursor.kv_head, services_.theme->dark})) {
    map_.set(occupancy_image(run, cursor.layer, cursor.kv_head, services_.theme->dark));
    rebuild_.done();
  }
  map_.draw(*ImGui::GetWindowDrawList(), {at.x, at.y + 2}, {at.x + size.x, at.y + size.y - 1});
  for (std::size_t i = 0; i < run.changes.size(); ++i) draw_flag(context, static_cast<int>(i), at, size);
  if (run.prompt_len > 0 && run.prompt_len < run.n_tokens()) {  // where the answer begins
    const float x = std::floor(at.x + static_cast<float>(run.prompt_len) / static_cast<float>(run.n_tokens()) * size.x);
    ImGui::GetWindowDrawList()->AddLine({x, at.y}, {x, at.y + size.y}, to_imgui(services_.theme->palette.muted));
  }
}

/// Where the policy was changed.
void TimeDeck::draw_flag(const ViewContext& context, int index, ImVec2 at, ImVec2 size) {
  const RunRecord& run = *context.a->run;
  const PolicyChange& change = run.changes[static_cast<std::size_t>(index)];
  if (change.q >= run.n_tokens()) return;
  const Theme& theme = *services_.theme;
  const float x = std::floor(at.x + static_cast<float>(change.q) / static_cast<float>(run.n_tokens()) * size.x);
  const float side = theme.px(8);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddLine({x, at.y}, {x, at.y + size.y}, to_imgui(theme.palette.warn));
  list.AddTriangleFilled({x, at.y}, {x + side, at.y + side / 2}, {x, at.y + side}, to_imgui(theme.palette.warn));
  services_.items->add("timeline.flag", index, item_rect({x, at.y}, {x + side, at.y + side}));
}

void TimeDeck::draw_playhead(ViewContext& context, ImVec2 at, ImVec2 size) {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float n = static_cast<float>(context.a->run->n_tokens());
  const float x = std::floor(at.x + (static_cast<float>(context.q()) + 0.5f) / n * size.x);
  list.AddRectFilled({x - theme.px(1), at.y - theme.px(2)}, {x + theme.px(1), at.y + size.y + theme.px(2)},
                     to_imgui(theme.palette.text));
  list.AddCircleFilled({x, at.y - theme.px(2)}, theme.px(4), to_imgui(theme.palette.text));
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const std::string q = "q " + std::to_string(context.q());
  const float w = text_width(font, q.c_str()), pad = theme.px(4);
  const float left = x + theme.px(5) + w + 2 * pad < at.x + size.x ? x + theme.px(5) : x - theme.px(5) - w - 2 * pad;
  list.AddRectFilled({left, at.y + theme.px(2)}, {left + w + 2 * pad, at.y + theme.px(4) + font_size(font)},
                     to_imgui(with_alpha(theme.palette.raised, 235)), theme.px(3));
  list.AddText(font, font_size(font), {left + pad, at.y + theme.px(3)}, to_imgui(theme.palette.text), q.c_str());
  services_.items->add("timeline.playhead", item_rect({x - theme.px(4), at.y}, {x + theme.px(4), at.y + size.y}));
}

}  // namespace kvscope::views
