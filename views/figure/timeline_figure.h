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
  bool operator==(const TimelineOptions&) const = default;
};

/// Lifelines as an image: x = query position, y = token, colour = token_state. More than `max_side` positions are
/// binned: a pixel takes the state of the first token and query of its bin.
Image lifeline_image(const RunRecord& run, int layer, int kv_head, int max_side, bool dark);

/// Panels: "lifelines" (continuous), "occupancy". Data: position, token, born, left_window, evict_at (empty if never),
/// state at the end. Throws Error (bad input): empty run, head outside.
/// The lifelines are binned to at most `max_side` cells a side.
BuiltFigure timeline_figure(const RunRecord& run, const TimelineOptions& options, const FigureStyle& style,
                            int max_side = 2048);

}  // namespace kvscope::views
