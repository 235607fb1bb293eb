#pragma once
// A study as bars with intervals: strategies beside each other (SP-KV Fig 4 right), latency and memory (WG-KV Fig 8),
// accuracy and cache of combinations (WG-KV Fig 16). A quantity may be a sum of columns: its bars are stacked.

#include "views/figure/drawn_study.h"
#include "views/figure/figure_style.h"
#include "views/figure/study_series.h"

namespace kvscope::views {

struct StudyBarsOptions {
  StudyPick pick{.x = "strategy", .y = {"nll_difference"}, .series = ""};
  bool interval = true;
  bool values = true;  // over each bar, where there is room
  int columns = 0;     // of panels; 0: as many as there is room for
  std::string x_label;
  bool operator==(const StudyBarsOptions&) const = default;
};

/// Bars stand on 0, in groups of one for each series. Panels: "panel.0" ... (columns = categories). Data: panel, quantity,
/// series, category, value, low, high, n, of a stacked quantity also those of its first part; a row of series "dense" for each
/// reference. Throws Error as study_panels() does.
BuiltFigure study_bars_figure(const StudyTable& study, const StudyBarsOptions& options, const FigureStyle& style);
DrawnStudy draw_study_bars(const StudyTable& study, const StudyBarsOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
