#pragma once
// Which study is shown, and as which figure. Names that the user has not chosen are those that suit the study.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "views/figure/drawn_study.h"
#include "views/figure/figure_options.h"

namespace kvscope::views {

inline constexpr std::string_view kNoColumn = "none", kAllRows = "all";

/// Part of the selection: plain data.
struct StudyLook {
  std::vector<std::string> open;   // files, in the order in which they were opened
  std::string shown;               // one of them; empty: none
  std::string x, y, by, panel;     // columns; empty: what suits the study, kNoColumn (of by and panel): none
  std::vector<std::string> where;  // conditions of StudyPick; empty: what suits the study, kAllRows: none
  bool front = true, log_x = false, log_y = false;
  int smooth = 1;  // of StudyLinesOptions
  IntervalMark interval = IntervalMark::whiskers;
  int point = -1;  // row of the table; -1: none
  int piece = 0;   // of the point's text: which run is opened
  bool operator==(const StudyLook&) const = default;
};
/// Puts this study on show: what was chosen of another one's rows does not hold here.
void show_study(StudyLook& look, const std::string& path);

/// What is drawn, every name filled in. A chosen column that this study lacks is as one not chosen.
struct StudyAxes {
  std::string x, y, by, panel;  // by and panel may be empty; x and y too, of a study without numbers
  std::vector<std::string> where;
  std::string dense;     // as StudyPick has it
  std::string no_front;  // why no Pareto front can be shown; empty: it can
};
StudyAxes study_axes(const StudyTable& study, const StudyLook& look);
/// Lines; bars where x is a column of texts.
FigureOptions study_figure(const StudyTable& study, const StudyLook& look);
/// Throws Error as the figures do.
DrawnStudy draw_study(const StudyTable& study, const FigureOptions& options, const FigureStyle& style);
/// Rows of the drawn points in the order of the figure: panel by panel, series by series, along x. Throws Error likewise.
std::vector<int> drawn_rows(const StudyTable& study, const FigureOptions& options);

/// Columns that may be chosen: of x all with more than one value, of y numbers that are no interval, of by and panel those
/// with few values, of rows "column=value" of such.
struct StudyChoices {
  std::vector<std::string> x, y, by, where;
};
StudyChoices study_choices(const StudyTable& study);

/// What a row is called: its policy and gate, its point, or its number.
std::string point_name(const StudyTable& study, int row);
/// A value with its unit: "0.242", "9.34 MiB", "33.1 ms"; "–" where there is none.
std::string value_with_unit(const StudyColumn& column, int row);

/// A study that is open.
struct OpenStudy {
  int id = 0;                               // 1, 2, ... in the order they were opened
  std::string path, name;                   // its file's
  std::shared_ptr<const StudyTable> table;  // null: being read, or why_not
  std::string why_not;                      // why it cannot be read
  std::string stale = {};                   // why it is not newer, of a training's curve; empty: as its files are
};
/// What the selected point was measured with, and whether its run can be opened here.
struct PointRun {
  std::vector<std::string> from;   // what is taken from where, a sentence each
  std::string why_not;             // a sentence; empty: it can
  std::string remedy, label;       // a command that changes that, and its button; empty: there is none
  std::vector<std::string> notes;  // what will differ all the same
  int n_pieces = 0;                // of its texts
};
struct OpenStudies {
  std::vector<OpenStudy> all;
  PointRun run;
  /// Null if none is on show, or it is not read.
  const OpenStudy* shown(const StudyLook& look) const;
};

}  // namespace kvscope::views
