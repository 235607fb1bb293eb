#pragma once
// Loss against the compute of a training, with the law that fits each family of models (SP-KV Fig. 2, eq. 9).

#include <string>
#include <vector>

#include "engine/core/study/measure/power_law.h"
#include "views/figure/figure_style.h"
#include "views/figure/study_series.h"

namespace kvscope::views {

struct ScalingFitOptions {
  std::string x = "train_flops", y = "nll";
  std::string series = "family|source";  // a law each
  std::vector<std::string> where;        // rows that are drawn, see StudyPick
  std::vector<std::string> fit;          // and of these, rows that are fitted; empty: all
  std::string x_label, y_label;
  bool operator==(const ScalingFitOptions&) const = default;
};

struct FamilyFit {
  std::string name;
  std::vector<StudyPoint> points;  // x ascending
  std::vector<bool> fitted;        // of each
  PowerLaw law;
};
/// Without a column `train_flops`, that is 6 · params · tokens (attention is not counted). Throws Error (bad input): columns that are
/// not there, a family of fewer than kLeastFitted models to fit.
std::vector<FamilyFit> scaling_fits(const StudyTable& study, const ScalingFitOptions& options);

/// Panels: "fit" (continuous). Data: series, x, value, fitted, law (its loss at x), floor, scale, exponent, r2.
BuiltFigure scaling_fit_figure(const StudyTable& study, const ScalingFitOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
