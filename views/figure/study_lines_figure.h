#pragma once
// A study as lines: quality against density (SP-KV Fig 3, WG-KV Fig 7, 9, 11), time and memory against length (KVpop Fig 4,
// WG-KV Fig 8), a training's curve (KVpop Fig 5, SP-KV Fig 8), turnover against share; with intervals, the Pareto front as a
// step line, the knee as a star and the dense cache as a dashed line.

#include "views/figure/drawn_study.h"
#include "views/figure/figure_style.h"
#include "views/figure/study_series.h"

namespace kvscope::views {

enum class IntervalMark : std::uint8_t { none, whiskers, band };

inline constexpr int kMaxSmooth = 1000;

struct StudyLinesOptions {
  StudyPick pick{.x = "density", .y = {"nll_difference"}};
  bool log_x = false, log_y = false;
  bool zero = false;   // a linear y axis has 0 on it
  bool line = true;    // points of a series are joined
  bool marks = true;   // and marked
  bool legend = true;  // of series; no key of a recipe: for figures that name their points
  int smooth = 1;      // a line of the mean of so many points up to each, over a pale one of the points; 1: none
  IntervalMark interval = IntervalMark::whiskers;
  int columns = 0;               // of panels; 0: as many as there is room for
  std::string x_label, y_label;  // in place of the column's own; y_label with one quantity
  bool operator==(const StudyLinesOptions&) const = default;
};

/// Panels: "panel.0" ... (continuous), row by row. Data: panel, quantity, series, x, value, low, high, n, on_front, knee, and smooth where
/// that is asked for; a row of series "dense" for each reference. Throws Error as study_panels() does.
BuiltFigure study_lines_figure(const StudyTable& study, const StudyLinesOptions& options, const FigureStyle& style);
DrawnStudy draw_study_lines(const StudyTable& study, const StudyLinesOptions& options, const FigureStyle& style);

/// What the interval of column `y` is, as its lower end says: "Wilson's 95 % interval".
std::string interval_name(const StudyTable& study, const std::string& y);

/// The model and file format of a study, if its facts say them: the end of its captions.
std::string describe_study(const StudyTable& study, const StudyPick& pick);

}  // namespace kvscope::views
