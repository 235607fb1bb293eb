// study.*: open studies, what is looked at of them, and the run of a point.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/layouts.h"
#include "views/figure/recipe_fields.h"

namespace kvscope::app {
namespace {

using views::StudyLook;

constexpr const char* kStudyView = "study";

/// The study on show, or the one of that id.
int study_argument(Session& session, const nlohmann::json& arguments) {
  return has_argument(arguments, "id") ? integer_argument(arguments, "id", 0) : session.studies().shown().id;
}

// Empty: what suits the study.
void set_column(const StudyTable& study, const nlohmann::json& arguments, const char* key, bool numbers, bool none,
                std::string& chosen) {
  if (!has_argument(arguments, key)) return;
  const std::string name = text_argument(arguments, key);
  const StudyColumn* column = study.column(name);
  const bool fits = column != nullptr && !(numbers && column->is_text);
  if (!fits && !name.empty() && !(none && name == views::kNoColumn)) {
    std::string all = none ? std::string(views::kNoColumn) : "";
    for (const StudyColumn& one : study.columns) {
      if (!numbers || !one.is_text) all += (all.empty() ? "" : ", ") + one.name;
    }
    bad_argument(key, "one of " + all);
  }
  chosen = name;
}

void set_rows(const StudyTable& study, const nlohmann::json& arguments, StudyLook& look) {
  if (!has_argument(arguments, "where")) return;
  const nlohmann::json& where = arguments["where"];
  std::vector<std::string> conditions;
  for (const nlohmann::json& one : where.is_array() ? where : nlohmann::json::array({where})) {
    if (!one.is_string()) bad_argument("where", "a condition, such as \"item=text\", or a list of them");
    conditions.push_back(one.get<std::string>());
  }
  if (conditions != std::vector<std::string>{std::string(views::kAllRows)})
    views::matching_rows(study, conditions);  // refuses what is none
  look.where = std::move(conditions);
}

void set_axes(Session& session, const nlohmann::json& arguments) {
  const StudyTable& study = *session.studies().shown().table;
  StudyLook look = session.selection().study;
  set_column(study, arguments, "x", false, false, look.x);
  set_column(study, arguments, "y", true, false, look.y);
  set_column(study, arguments, "by", false, true, look.by);
  set_column(study, arguments, "panel", false, true, look.panel);
  set_rows(study, arguments, look);
  look.front = flag_argument(arguments, "front", look.front);
  look.log_x = flag_argument(arguments, "log_x", look.log_x);
  look.log_y = flag_argument(arguments, "log_y", look.log_y);
  look.smooth = integer_argument(arguments, "smooth", look.smooth);
  if (look.smooth < 1 || look.smooth > views::kMaxSmooth) bad_argument("smooth", "1 to 1000 points");
  if (has_argument(arguments, "interval")) {
    const std::string name = text_argument(arguments, "interval");
    const auto found = std::ranges::find(views::kIntervals, name);
    if (found == std::end(views::kIntervals)) bad_argument("interval", "none, whiskers or band");
    look.interval = static_cast<views::IntervalMark>(found - std::begin(views::kIntervals));
  }
  session.selection().study = std::move(look);
}

// What was known of the point before says nothing of this one: the next command must not take it for known.
void follow(Session& session) { session.studies().poll(session.engine()); }

void select_point(Session& session, const nlohmann::json& arguments) {
  const auto n = static_cast<int>(session.studies().shown().table->n_points());
  StudyLook& look = session.selection().study;
  const int point = integer_argument(arguments, "point", look.point), piece = integer_argument(arguments, "piece", 0);
  if (point < -1 || point >= n) bad_argument("point", "a row from 0 to " + std::to_string(n - 1) + ", or -1 for none");
  if (piece < 0) bad_argument("piece", "a whole number from 0");
  look.point = point, look.piece = piece;
  follow(session);
}

// Along the lines as they are drawn, from the last one on to the first.
void step(Session& session, int by) {
  const StudyTable& study = *session.studies().shown().table;
  StudyLook& look = session.selection().study;
  const std::vector<int> rows = views::drawn_rows(study, views::study_figure(study, look));
  const auto n = static_cast<std::ptrdiff_t>(rows.size()), at = std::ranges::find(rows, look.point) - rows.begin();
  const std::ptrdiff_t to = at == n ? (by > 0 ? 0 : n - 1) : (at + by + n) % n;
  look.point = rows[static_cast<std::size_t>(to)], look.piece = 0;
  follow(session);
}

void open_study(Session& session, UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  if (ask_for_path(
          ui, arguments,
          {.title = "Open study", .command = "study.open", .hint = "a study (.h5), or a folder with a training"}))
    return;
  session.studies().open(text_argument(arguments, "path"), [&ui, &views] { show_study_view(ui, views); });
}

void find_text(Session& session, UiState& ui, const nlohmann::json& arguments) {
  if (ask_for_path(ui, arguments,
                   {.title = "Locate this point's text",
                    .command = "study.find_text",
                    .hint = "the text file that the study read (its hash is compared)"}))
    return;
  session.studies().add_text(text_argument(arguments, "path"));
}

}  // namespace

void show_study_view(UiState& ui, const views::ViewList& views) {
  const auto row = main_row(ui, views);
  show_view(ui, views, kStudyView, row.empty() ? "" : row.back()->id());
  if (!ui.maximised.empty()) ui.maximised = kStudyView;
}

void add_study_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  const auto is_shown = [&session] {
    return session.studies().open_studies().shown(session.selection().study) != nullptr;
  };
  const auto any_open = [&session] { return !session.studies().open_studies().all.empty(); };
  const auto add = [&](const char* id, const char* title, const char* shortcut, std::vector<Argument> arguments,
                       Action action) {
    registry.add({id, title, "Study", shortcut, arguments, is_shown, std::move(action)});
  };
  registry.add(
      {"study.open", "Open a study", "Study", "", takes(arg::path("path")), nullptr,
       [&session, &ui, &views](const nlohmann::json& arguments) { open_study(session, ui, views, arguments); }});
  registry.add(
      {"study.close", "Close a study", "Study", "", takes(arg::number("id", "the shown one")), any_open,
       [&session](const nlohmann::json& arguments) { session.studies().close(study_argument(session, arguments)); }});
  registry.add(
      {"study.show", "Show another study", "Study", "", takes(arg::number("id")), any_open,
       [&session](const nlohmann::json& arguments) { session.studies().show(integer_argument(arguments, "id", 0)); }});
  add("study.axes", "Set the axes of the study", "",
      takes(arg::text("x", "", "column"), arg::text("y", "", "column"), arg::text("by", "", "column"),
            arg::text("panel", "", "column"), arg::list("where", "", "condition or list"), arg::flag("front"),
            arg::flag("log_x"), arg::flag("log_y"), arg::number("smooth", "", "points"),
            arg::choice("interval", {"none", "whiskers", "band"})),
      [&session](const nlohmann::json& arguments) { set_axes(session, arguments); });
  add("study.select", "Select a point of the study", "",
      takes(arg::number("point", "", "row from 0; -1 for none"), arg::number("piece", "0", "piece of the text")),
      [&session](const nlohmann::json& arguments) { select_point(session, arguments); });
  add("study.next", "Next point of the study", "Alt+Right", takes(), [&session] { step(session, 1); });
  add("study.previous", "Previous point of the study", "Alt+Left", takes(), [&session] { step(session, -1); });
  registry.add({.id = "study.open_point",
                .title = "Open this point's run",
                .group = "Study",
                .shortcut = "Alt+Enter",
                .run = [&session] { session.point().open(); },
                .why_not = [&session] { return session.point().why_not(); }});
  registry.add({.id = "study.open_model",
                .title = "Open the study's model",
                .group = "Study",
                .enabled = [&session] { return session.studies().point() != nullptr && !session.run_in_progress(); },
                .run = [&session] { session.point().open_model(); }});
  add("study.find_text", "Locate this point's text", "", takes(arg::path("path")),
      [&session, &ui](const nlohmann::json& arguments) { find_text(session, ui, arguments); });
}

}  // namespace kvscope::app
