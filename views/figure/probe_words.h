#pragma once
// The held-out text of a training's probes as flowing words, each in the colour of its mean score.

#include <string>
#include <vector>

#include "engine/core/study/table/probe_summary.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {

struct ProbeWord {
  int token = 0;
  std::string label;
  Box box;
};

/// As many as the box has room for, from the first token on; letters of `size`.
std::vector<ProbeWord> probe_words(const ProbeSummary& probes, const Box& box, double size);
/// What all of them need at this width.
double probe_words_height(const ProbeSummary& probes, double width, double size);
/// Registers the panel "text".
void draw_probe_words(FigureBuilder& b, const ProbeSummary& probes, std::size_t probe, const Box& box,
                      const ColourScale& scale);

}  // namespace kvscope::views
