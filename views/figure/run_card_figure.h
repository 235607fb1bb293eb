#pragma once
// One picture that tells what a policy did to a run: what was lost, the text, and where in the model. For a talk or a post.

#include <cstdint>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct RunCardOptions {
  std::int32_t q = -1;             // query position; -1: the last
  Metric metric = Metric::recall;  // of the map; density for one that needs an oracle where the run has none
  Colormap colormap = Colormap::viridis;
  bool fit = false;  // the map's scale goes over its values; else 0 to 1
  bool preview = false;
  bool operator==(const RunCardOptions&) const = default;
};

/// Panels: "text" and "map". Of a text that does not fit, the lines around the token whose loss cost most are shown. Each token
/// has the share of KV heads that keep it as its colour. The red part of the line below it is the share of heads that evicted it
/// although the run's own oracle keeps it. Heads in layers that the model itself makes local do not count. Height: the style's, or 0.525 of the width.
/// Data, a row for each token that is shown: position, token_id, token, kept_heads, heads, wrong_heads (empty without an oracle).
/// Throws Error (bad input) for an empty run, or a page without room.
BuiltFigure run_card_figure(const RunRecord& run, const RunCardOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
