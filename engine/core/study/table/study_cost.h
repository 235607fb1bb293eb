#pragma once
// What the points of a study cost, and when they can be compared by it.

#include <optional>
#include <span>
#include <string>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// The column by which a study's front, knee and values at matched cost go: the recipe's "cost", else the normalised cache
/// size, or density in studies made before it was measured.
std::string study_cost(const StudyTable& study);

/// The least and the greatest window of policies whose windows differ. Density leaves the window out, so it is no fair cost
/// for them.
struct WindowSpread {
  double least, greatest;  // tokens
  /// "density leaves out the windows, which differ (64 to 384 tokens): compare by cache size"
  std::string warning() const;
  /// "64 to 384"
  std::string text() const;
};
/// `windows` in tokens; NaN where none is known. Empty if they are alike.
std::optional<WindowSpread> window_spread(std::span<const double> windows);
/// Of a study's rows, the dense policy apart.
std::optional<WindowSpread> window_spread(const StudyTable& study);

}  // namespace kvscope
