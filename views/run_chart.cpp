#include "views/run_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/core/support/error.h"
#include "engine/core/support/minus.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr float kReachOfDot = 10;

}  // namespace

std::string name_of(const ListedRun& run) { return std::to_string(run.id) + " " + run.title; }

std::string number_of(RunMeasure measure, double value) {
  if (std::isnan(value)) return "–";
  return info_of(measure).units == "bytes" ? bytes_text(value) : with_minus(number_text(value, 4));
}

void choose_measure(const ViewServices& services, const char* item, std::span<const RunMeasure> measures,
                    RunMeasure& chosen, int most_rows) {
  std::vector<std::string_view> names, hints;
  int at = 0;
  for (std::size_t i = 0; i < measures.size(); ++i) {
    names.push_back(info_of(measures[i]).brief), hints.push_back(info_of(measures[i]).definition);
    if (measures[i] == chosen) at = static_cast<int>(i);
  }
  if (segmented(services, item, names, hints, at, most_rows)) chosen = measures[static_cast<std::size_t>(at)];
}

void RunChart::draw_choices(RunTableLook& look) {
  constexpr std::array kY = {RunMeasure::nll_answer, RunMeasure::nll_text, RunMeasure::above_chance};
  constexpr std::array kX = {RunMeasure::cache_size, RunMeasure::cache_size_end};
  choose_measure(services_, "run_table.y", kY, look.y, 1);
  const float gap = services_.theme->px(14);
  if (right_edge_on_screen() - ImGui::GetItemRectMax().x > services_.theme->px(190)) ImGui::SameLine(0, gap);
  choose_measure(services_, "run_table.x", kX, look.x, 1);
}

void RunChart::draw(ViewContext& context, const std::vector<RunRow>& rows, ImVec2 size) {
  const Theme& theme = *services_.theme;
  ImGui::BeginChild("chart", size);
  {
    const FontScope small(theme.fonts.small);
    draw_choices(context.selection->run_table);
  }
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < theme.px(120) || room.y < theme.px(80)) {
    const FontScope small(theme.fonts.small);
    too_little_room(services_, "chart");
  } else {
    build(context, rows, room);
    if (!refused_.empty()) {
      wrapped_text_in(theme.palette.muted, refused_);
      services_.items->add_text("run_table.refusal", last_item(), refused_);
    } else {
      const ImVec2 origin = ImGui::GetCursorScreenPos();
      drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, theme);
      ImGui::InvisibleButton("run_table.plot", room);
      services_.items->add("run_table.plot", last_item());
      handle_mouse(context, origin);
    }
  }
  ImGui::EndChild();
}

void RunChart::build(const ViewContext& context, const std::vector<RunRow>& rows, ImVec2 room) {
  const RunTableLook& look = context.selection->run_table;
  Key key{{}, {}, {.x = look.x, .y = look.y}, room.x, room.y, services_.theme->scale, services_.theme->dark};
  std::vector<MeasuredRun> measured;
  bool waits = false, any_ticked = false;
  for (const RunRow& row : rows) {
    const RunRecord& run = *row.run->run;
    waits = waits || row.is_awaited(), any_ticked = any_ticked || row.ticked;
    if (row.measures == nullptr) continue;
    if (row.ticked) key.options.drawn.push_back(static_cast<int>(key.ids.size()));
    key.ids.push_back(row.run->id);
    RunKey shown;
    shown.run = row.run->run, shown.revision = row.run->revision;
    key.runs.push_back(std::move(shown));
    key.options.names.push_back(name_of(*row.run));
    measured.push_back(measured_run(run, *row.measures, key.options.names.back()));
  }
  const std::string nothing = (any_ticked ? "No chosen run has " : "No run has ") + std::string(info_of(look.y).title) +
                              " and " + std::string(info_of(look.x).title) + ".";
  if (measured.empty() || (any_ticked && key.options.drawn.empty())) {
    refused_ = waits ? "Computing ..." : nothing, rebuild_ = {};
    return;
  }
  if (!rebuild_.due(key)) return;
  try {
    const auto [width, height] = std::pair(static_cast<double>(room.x), static_cast<double>(room.y));
    DrawnStudy drawn = draw_run_points(measured, key.options, services_.theme->figure_style(width, height));
    drawing_.set(std::move(drawn.built.figure));
    points_ = std::move(drawn.points);
    refused_.clear();
  } catch (const Error&) {
    refused_ = nothing;
  }
  measured_ = std::move(measured), drawn_ids_ = std::move(key.ids);
  rebuild_.done();
}

/// A dot within reach is meant; a click shows its run as A.
void RunChart::handle_mouse(ViewContext& context, ImVec2 origin) {
  const Theme& theme = *services_.theme;
  const ListedRuns& listed = *context.listed;
  const bool inside = ImGui::IsItemHovered(), clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const DrawnPoint* nearest = nullptr;
  double distance = theme.px(kReachOfDot);
  const auto ring = [&](const DrawnPoint& point, Colour colour) {
    const Point centre = point.box.centre();
    ImGui::GetWindowDrawList()->AddCircle(
        {origin.x + static_cast<float>(centre.x), origin.y + static_cast<float>(centre.y)}, theme.px(6),
        to_imgui(colour), 0, theme.px(2));
  };
  for (const DrawnPoint& point : points_) {
    const Box& b = point.box;
    const int id = drawn_ids_[static_cast<std::size_t>(point.point.row)];
    services_.items->add(
        "run_table.point", id,
        item_rect({origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
                  {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())}));
    if (id == listed.a) ring(point, theme.palette.accent);
    if (id == listed.b) ring(point, theme.palette.muted);
    const double away = std::hypot(mouse.x - origin.x - b.centre().x, mouse.y - origin.y - b.centre().y);
    if (inside && away < distance) nearest = &point, distance = away;
  }
  if (nearest == nullptr) return;
  const auto row = static_cast<std::size_t>(nearest->point.row);
  const RunTableLook& look = context.selection->run_table;
  const auto line = [&](RunMeasure measure) {
    return "\n" + label_of(measure) + " " + number_of(measure, measured_[row].measures[measure]);
  };
  const std::string text = measured_[row].name + line(look.y) + line(look.x);
  services_.items->add_text("run_table.hover", item_rect(mouse, mouse), text);
  {
    const HoverCard card(services_);
    ImGui::TextUnformatted(text.c_str());
  }
  const int id = drawn_ids_[row];
  if (clicked && listed.show) listed.show(id, id == listed.b ? 0 : listed.b);
}

}  // namespace kvscope::views
