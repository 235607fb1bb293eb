#pragma once
// A picture for fewer pixels than it has cells: none is left out.

#include "views/figure/figure.h"

namespace kvscope::views {

/// `image` with at most so many cells across and down, each the mean of those that it covers, weighed by their alpha;
/// as it is if it has no more.
Image image_means(const Image& image, int columns, int rows);

/// Pixels a point of a preview that a window may still make smaller: as on paper on a screen of 144 dots an inch.
inline constexpr double kPreviewPixels = 2;

/// The figure with each of its images in at most the pixels that it covers at so many pixels a point.
Figure for_pixels(Figure figure, double pixels_per_point);

}  // namespace kvscope::views
