#pragma once
// The cache of one head over time: a line per token from its birth to its eviction, and the occupancy beneath.

#include "engine/core/record/run_record.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct TimelineOptions {
  int layer = 0;
  int kv_head = 0;
  bool occupancy = true;
  bool preview = false;
  int first = 0, count = 0;              // query positions shown; count 0: all
  int token_first = 0, token_count = 0;  // tokens shown; count 0: all
  bool operator==(const TimelineOptions&) const = default;
};

/// Panels: "lifelines" (continuous), "occupancy". Data: position, token, born, left_window, evict_at (empty if never),
/// state at the end. Throws Error (bad input): empty run, head or range outside.
/// The lifelines have at most `max_side` cells a side: where there are more queries or tokens, a cell has their mean
/// colour, as a point of the occupancy has their mean.
BuiltFigure timeline_figure(const RunRecord& run, const TimelineOptions& options, const FigureStyle& style,
                            int max_side = 2048);

/// The same for the screen, where a point is a pixel: one cell to a pixel, without its numbers.
Figure timeline_picture(const RunRecord& run, const TimelineOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
