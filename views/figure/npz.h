#pragma once
// The numbers of a figure as a NumPy archive: one array per column, numpy.load() reads it.

#include <string>

#include "views/figure/figure.h"

namespace kvscope::views {

/// A ZIP of .npy files, stored, with fixed dates: float64, int64, or fixed-width unicode (invalid bytes as U+FFFD).
std::string to_npz(const FigureData& data);

}  // namespace kvscope::views
