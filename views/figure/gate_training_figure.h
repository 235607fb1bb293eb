#pragma once
// Gates while they train: after a step, what each head would keep of a held-out text, how each token is scored, and each layer over all
// steps.

#include <string>

#include "engine/core/study/table/probe_summary.h"
#include "views/figure/colormap.h"
#include "views/figure/figure.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct GateTrainingOptions {
  std::string source;  // of several trainings, by the column `source`; empty: the first that has probes
  int step = -1;       // the last probe up to this step; -1: the last one
  ProbeQuantity quantity = ProbeQuantity::kept;  // of heads and layers; a gate without a threshold has scores alone
  Colormap colormap = Colormap::viridis;
  bool operator==(const GateTrainingOptions&) const = default;
};

/// What is drawn of these probes.
ProbeQuantity drawn_quantity(const ProbeSummary& probes, const GateTrainingOptions& options);

/// Panels: "map" (layers x KV heads), "lines" (continuous), "text" (probe_words.h). What has no room is left out, the text first.
Figure draw_gate_training(const ProbeSummary& probes, const GateTrainingOptions& options, const FigureStyle& style);
/// The axes of "lines", for who has to know what lies under the mouse.
struct ProbeAxes {
  double step_lo = 0, step_hi = 1, lo = 0, hi = 1;
};
ProbeAxes probe_axes(const ProbeSummary& probes, ProbeQuantity quantity);

/// Data: mark (head, layer, token), step, layer, kv_head, token, text, kept, score. Throws Error (bad input) for a study without probes.
BuiltFigure gate_training_figure(const StudyTable& study, const GateTrainingOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
