#include "views/study_view.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kRowsAtOnce = 20'000;  // rows, some 10 ms; more are for another thread
constexpr float kPanelWidth = 290, kRoomBeside = 640, kPanelShare = 0.42f, kReach = 10;
constexpr float kRoomForGates = 300;  // below it a button more would take the height of the plot
constexpr float kLeastPicture = 130,
                kLeastPanel = 26;  // what is said of a point is scrolled before its plot is a strip

}  // namespace

void StudyView::draw(ViewContext& context) {
  if (context.studies == nullptr || context.studies->all.empty()) {
    empty_state(services_, context, "empty.study", "No study is open",
                "Open a sweep, hybrid study or evaluation to explore its points and reopen their runs. A "
                "training's curve (NAME_loss.h5) is drawn as it grows.",
                "Open a study", "study.open");
    return;
  }
  {
    const FontScope small(services_.theme->fonts.small);
    choosers_.draw(context);
    const bool has_room = ImGui::GetContentRegionAvail().y > services_.theme->px(kRoomForGates);
    if (has_room && context.study() != nullptr && n_probes(*context.study()->table) > 0 &&
        line_button(services_, "study.gates", "Gates in training",
                    "Show or hide the view of this training's scores of a held-out text", false) &&
        context.command)
      context.command("view.toggle_gate_training");
  }
  if (context.study() == nullptr) return;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const Theme& theme = *services_.theme;
  const bool beside = room.x >= theme.px(kRoomBeside);
  // Before a point is chosen as well: the one that is clicked stays under the pointer.
  const float gap = theme.px(8);
  const float below = std::max(theme.px(kLeastPanel),
                               std::min(std::floor(room.y * kPanelShare), room.y - gap - theme.px(kLeastPicture)));
  const float panel = beside ? theme.px(kPanelWidth) : below;
  draw_picture(context,
               beside ? ImVec2{room.x - panel - gap, room.y} : ImVec2{room.x, std::max(1.f, room.y - panel - gap)});
  if (beside) ImGui::SameLine(0, gap);
  ImGui::BeginChild("point", beside ? ImVec2{panel, room.y} : ImVec2{room.x, panel});
  {
    const FontScope small(theme.fonts.small);
    point_panel_.draw(context);
  }
  ImGui::EndChild();
}

const FigureOptions& StudyView::options_of(const ViewContext& context) const {
  const OpenStudy& study = *context.study();
  StudyLook look = context.selection->study;
  look.point = -1, look.piece = 0;  // which are no part of the figure
  if (known_table_ != study.table || !(known_look_ == look)) {
    known_options_ = study_figure(*study.table, look);
    known_table_ = study.table, known_look_ = std::move(look);
  }
  return known_options_;
}

std::optional<ViewFigure> StudyView::figure(const ViewContext& context) const {
  const OpenStudy* study = context.study();
  if (study == nullptr) return std::nullopt;
  return ViewFigure{options_of(context), {}, study->table, study->path};
}

StudyView::Picture StudyView::make(const Key& key, const FigureStyle& style) {
  try {
    DrawnStudy drawn = draw_study(*key.table, key.options, style);
    return {std::move(drawn.built.figure), std::move(drawn.points), ""};
  } catch (const Error& error) {
    return {{}, {}, error.what()};
  }
}

bool StudyView::build(const Key& key) {
  const FigureStyle style = services_.theme->figure_style(key.width, key.height);
  const auto take = [this](Picture picture) {
    points_ = std::move(picture.points), refused_ = std::move(picture.refused);
    drawing_.set(std::move(picture.figure));
    rebuild_.done();
    drawn_ = true;
  };
  if (key.table->n_points() <= kRowsAtOnce) {
    if (rebuild_.due(key)) take(make(key, style));
    return drawn_;
  }
  auto picture = debounced_.of(key, [key, style] { return make(key, style); });
  if (picture && rebuild_.due(key)) take(std::move(*picture));
  return drawn_;
}

void StudyView::draw_picture(ViewContext& context, ImVec2 room) {
  const Theme& theme = *services_.theme;
  ImGui::BeginChild("picture", room);
  const bool has_room = room.x >= theme.px(120) && room.y >= theme.px(80);
  if (!has_room) {
    const FontScope small(theme.fonts.small);
    too_little_room(services_, "plot");
  } else if (!build({context.study()->table, options_of(context), room.x, room.y, theme.scale, theme.dark})) {
    text_in(theme.palette.muted, "Drawing ...");
  } else if (!refused_.empty()) {
    wrapped_text_in(theme.palette.muted, refused_);
    services_.items->add_text("study.refusal", last_item(), refused_);
  } else {
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, theme);
    ImGui::InvisibleButton("study.plot",
                           {room.x, std::min(room.y, std::max(1.f, static_cast<float>(drawing_.figure().height)))});
    services_.items->add("study.plot", last_item());
    handle_mouse(context, origin);
  }
  ImGui::EndChild();
}

void StudyView::ring(ImVec2 origin, const DrawnPoint& point, float width) const {
  const Theme& theme = *services_.theme;
  const Point centre = point.box.centre();
  const float radius = std::max(theme.px(5), static_cast<float>(point.box.w) * 0.5f + theme.px(3));
  if (point.point.name.empty()) {
    ImGui::GetWindowDrawList()->AddCircle(
        {origin.x + static_cast<float>(centre.x), origin.y + static_cast<float>(centre.y)}, radius,
        to_imgui(theme.palette.accent), 0, width);
    return;
  }
  const Box b = point.box.inset(-2);
  ImGui::GetWindowDrawList()->AddRect(
      {origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
      {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())},
      to_imgui(theme.palette.text), 0, width);
}

std::string StudyView::describe(const StudyTable& study, const DrawnPoint& point) const {
  const StudyPoint& p = point.point;
  const auto say = [&](const std::string& name, double value) {
    const StudyColumn* column = study.column(name);
    std::string label = column_label(study, name);
    if (const std::string unit = " (" + column->units + ")"; label.ends_with(unit))
      label.resize(label.size() - unit.size());
    return label + " " + value_with_unit({.name = name, .units = column->units, .meaning = "", .numbers = {value}}, 0);
  };
  const FigureOptions& options = known_options_;
  const auto* lines = std::get_if<StudyLinesOptions>(&options);
  std::string text = p.n > 1 ? "mean of " + std::to_string(p.n) + " rows" : point_name(study, p.row);
  if (lines != nullptr) text += "\n" + say(lines->pick.x, p.x);
  text += "\n" + say(point.quantity, p.y);
  if (!std::isnan(p.low) && !std::isnan(p.high))
    text += " (" + number_text(p.low, 4) + " to " + number_text(p.high, 4) + ")";
  if (!std::isnan(p.smooth))
    text += "\nmean of the last " + std::to_string(lines->smooth) + ": " + number_text(p.smooth, 4);
  if (p.on_front) text += p.is_knee ? "\non the front (knee)" : "\non the front";
  return text;
}

/// The nearest point within reach is meant; of a bar the one that the mouse is in.
void StudyView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const Theme& theme = *services_.theme;
  StudyLook& look = context.selection->study;
  const bool inside = ImGui::IsItemHovered(), clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point at{mouse.x - origin.x, mouse.y - origin.y};
  const DrawnPoint* nearest = nullptr;
  double distance = theme.px(kReach);
  for (const DrawnPoint& point : points_) {
    const Box& b = point.box;
    services_.items->add(
        "study.point", point.point.row, static_cast<int>(point.panel),
        item_rect({origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
                  {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())}));
    if (point.point.row == look.point) ring(origin, point, theme.px(2));
    const Point centre = b.centre();
    const bool is_bar = !point.point.name.empty();
    const double away = !is_bar                    ? std::hypot(at.x - centre.x, at.y - centre.y)
                        : b.inset(-1).contains(at) ? 0
                                                   : std::numeric_limits<double>::infinity();
    if (inside && away < distance) nearest = &point, distance = away;
  }
  if (nearest == nullptr) return;
  ring(origin, *nearest, theme.px(1));
  const std::string text = describe(*context.study()->table, *nearest);
  services_.items->add_text("study.hover", item_rect(mouse, mouse), text);
  {
    const HoverCard card(services_);
    ImGui::TextUnformatted(text.c_str());
  }
  if (clicked) look.point = nearest->point.row, look.piece = 0;
}

}  // namespace kvscope::views
