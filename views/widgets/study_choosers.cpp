#include "views/widgets/study_choosers.h"

#include <algorithm>
#include <array>

#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr float kColumnWidth = 170, kListWidth = 250, kSmoothWidth = 100;
constexpr float kRoomWidth = 640, kRoomHeight = 480;  // with less the picture has all of it, and a button the choosers

std::string one_line(const OpenStudy& study) {
  if (!study.why_not.empty()) return study.name + ": cannot be read";
  if (study.table == nullptr) return study.name + ": reading ...";
  return study.name + ": " + study.table->kind + ", " + std::to_string(study.table->n_points()) +
         (study.table->n_points() == 1 ? " point" : " points");
}

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

void StudyChoosers::draw(ViewContext& context) {
  const Theme& theme = *services_.theme;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  stacked_ = room.x < theme.px(kRoomWidth) || room.y < theme.px(kRoomHeight);
  draw_list(context);
  const OpenStudy* study = context.study();
  if (study == nullptr) return;
  if (known_ != study->table) choices_ = study_choices(*study->table), known_ = study->table;
  if (!stacked_) return draw_axes(context, *study);
  if (line_button(services_, "study.axes", "Axes", "Choose columns for axes, lines and panels, and the rows to draw",
                  false))
    ImGui::OpenPopup("axes");
  const float width = theme.px(330);
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, ImGui::GetIO().DisplaySize.y});
  if (!ImGui::BeginPopup("axes")) return;
  draw_axes(context, *study);
  ImGui::EndPopup();
}

void StudyChoosers::label(const char* text, bool first) {
  const Theme& theme = *services_.theme;
  const float right = right_edge_on_screen();
  const float needs = ImGui::CalcTextSize(text).x + theme.px(kColumnWidth + 20);
  if (!first && !stacked_ && ImGui::GetItemRectMax().x + needs < right) ImGui::SameLine(0, theme.px(12));
  ImGui::AlignTextToFramePadding();
  text_in(theme.palette.muted, text);
  ImGui::SameLine(0, theme.px(5));
}

void StudyChoosers::draw_list(ViewContext& context) {
  StudyLook& look = context.selection->study;
  const auto& all = context.studies->all;
  std::vector<std::string> names = {"none"}, hints = {"No study is shown"};
  int chosen = 0;
  for (const OpenStudy& study : all) {
    if (study.path == look.shown) chosen = static_cast<int>(names.size());
    names.push_back(one_line(study));
    hints.push_back(study.path + (study.why_not.empty() ? "" : "\n" + study.why_not));
  }
  const std::string hint = hints[static_cast<std::size_t>(chosen)];
  if (drop_down(services_, "study.list", views_of(names), views_of(hints), chosen, kListWidth)) {
    if (chosen == 0) look.shown.clear();
    if (chosen > 0) show_study(look, all[static_cast<std::size_t>(chosen) - 1].path);
  }
  hint_of(services_, hint);
  if (line_button(services_, "study.open", "Open", "Open another study; several can be open", false) && context.command)
    context.command("study.open");
  if (chosen > 0 && line_button(services_, "study.close", "Close", "Close this study; its file is kept", false) &&
      context.command)
    context.command("study.close");
  if (chosen > 0 && !all[static_cast<std::size_t>(chosen) - 1].stale.empty()) {
    const std::string text = "Showing the last version read: " + all[static_cast<std::size_t>(chosen) - 1].stale;
    wrapped_text_in(services_.theme->palette.warn, text);
    services_.items->add_text("study.stale", last_item(), text);
  }
  const bool unreadable = chosen > 0 && !all[static_cast<std::size_t>(chosen) - 1].why_not.empty();
  if (!unreadable) return;
  wrapped_text_in(services_.theme->palette.warn, all[static_cast<std::size_t>(chosen) - 1].why_not);
  services_.items->add_text("study.unreadable", last_item(), all[static_cast<std::size_t>(chosen) - 1].why_not);
}

void StudyChoosers::choose_column(const char* item, const char* name, const StudyTable& study,
                                  const std::vector<std::string>& columns, bool may_be_none, const std::string& now,
                                  std::string& chosen) {
  label(name, item == std::string_view("study.y"));
  std::vector<std::string> names, labels, hints;
  if (may_be_none) names.emplace_back(kNoColumn), labels.emplace_back(kNoColumn), hints.emplace_back("");
  for (const std::string& column : columns) names.push_back(column);
  if (!now.empty() && std::ranges::find(names, now) == names.end()) names.push_back(now);
  for (std::size_t i = labels.size(); i < names.size(); ++i) {
    const StudyColumn* column = study.column(names[i]);
    labels.push_back(column_label(study, names[i]));
    hints.push_back(names[i] + (column == nullptr || column->meaning.empty() ? "" : ": " + column->meaning));
  }
  if (names.empty()) return text_in(services_.theme->palette.muted, "-");
  int index = static_cast<int>(std::ranges::find(names, now.empty() ? std::string(kNoColumn) : now) - names.begin());
  index = std::min(index, static_cast<int>(names.size()) - 1);
  const std::string hint = hints[static_cast<std::size_t>(index)];
  if (drop_down(services_, item, views_of(labels), views_of(hints), index, kColumnWidth))
    chosen = names[static_cast<std::size_t>(index)];
  hint_of(services_, hint);
}

void StudyChoosers::choose_rows(const StudyAxes& axes, StudyLook& look) {
  label("rows");
  std::vector<std::string> names = {"all"};
  names.insert(names.end(), choices_.where.begin(), choices_.where.end());
  const std::string now = axes.where.empty() ? "all" : joined(axes.where);
  auto found = std::ranges::find(names, now);
  if (found == names.end()) names.push_back(now), found = names.end() - 1;
  int index = static_cast<int>(found - names.begin());
  if (!drop_down(services_, "study.rows", views_of(names), {}, index, kColumnWidth)) return;
  look.where = {names[static_cast<std::size_t>(index)]};
}

void StudyChoosers::choose_smooth(StudyLook& look) {
  constexpr std::array kMeans = {1, 5, 10, 25, 50, 100};
  label("smooth");
  std::vector<std::string> names;
  for (const int n : kMeans) names.push_back(n == 1 ? "off" : std::to_string(n) + " points");
  auto at = static_cast<std::size_t>(std::ranges::find(kMeans, look.smooth) - kMeans.begin());
  if (at == kMeans.size()) names.push_back(std::to_string(look.smooth) + " points");  // of a script
  int index = static_cast<int>(at);
  if (drop_down(services_, "study.smooth", views_of(names), {}, index, kSmoothWidth) &&
      index < static_cast<int>(kMeans.size()))
    look.smooth = kMeans[static_cast<std::size_t>(index)];
  hint_of(services_, "Add a line: at each point, the mean of this many points up to it");
}

void StudyChoosers::draw_axes(ViewContext& context, const OpenStudy& open) {
  StudyLook& look = context.selection->study;
  const StudyTable& study = *open.table;
  const StudyAxes axes = study_axes(study, look);
  choose_column("study.y", "y", study, choices_.y, false, axes.y, look.y);
  choose_column("study.x", "x", study, choices_.x, false, axes.x, look.x);
  choose_column("study.by", "line per", study, choices_.by, true, axes.by, look.by);
  choose_column("study.panel", "panel per", study, choices_.by, true, axes.panel, look.panel);
  choose_rows(axes, look);
  const StudyColumn* x = study.column(axes.x);
  if (x == nullptr || !x->is_text) choose_smooth(look);
  draw_switches(look, axes, x != nullptr && x->is_text);
}

void StudyChoosers::draw_switches(StudyLook& look, const StudyAxes& axes, bool bars) {
  const bool can_front = axes.no_front.empty() && !bars;
  ImGui::BeginDisabled(!can_front);
  if (line_button(services_, "study.front", "Pareto front",
                  can_front ? "Show the points that no other point beats in both columns"
                  : bars    ? "Bars have no Pareto front."
                            : axes.no_front,
                  can_front && look.front))
    look.front = !look.front;
  ImGui::EndDisabled();
  if (!bars) {
    if (line_button(services_, "study.log_x", "log x", "Use a logarithmic x axis", look.log_x))
      look.log_x = !look.log_x;
    if (line_button(services_, "study.log_y", "log y", "Use a logarithmic y axis", look.log_y))
      look.log_y = !look.log_y;
  }
  const bool shown = look.interval != IntervalMark::none;
  if (line_button(services_, "study.interval", "Intervals",
                  "Show whiskers from COLUMN_low to COLUMN_high, or ±1.96 standard errors", shown))
    look.interval = shown ? IntervalMark::none : IntervalMark::whiskers;
}

}  // namespace kvscope::views
