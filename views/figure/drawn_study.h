#pragma once
// A figure of a study, and where its points are in it: a window has to know what lies under the mouse.

#include <string>
#include <vector>

#include "views/figure/figure.h"
#include "views/figure/study_series.h"

namespace kvscope::views {

struct DrawnPoint {
  std::size_t panel = 0;  // "panel.0" ...
  std::string quantity, series;
  StudyPoint point;
  Box box;  // of its mark or bar, in the figure's points
};

struct DrawnStudy {
  BuiltFigure built;
  std::vector<DrawnPoint> points;  // in the order of the figure's data
};

}  // namespace kvscope::views
