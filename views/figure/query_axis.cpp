#include "views/figure/query_axis.h"

#include <algorithm>
#include <cmath>

namespace kvscope::views {

void draw_query_axis(FigureBuilder& b, const Box& box, TokenSpan queries) {
  const FigureStyle& s = b.style();
  std::vector<Tick> ticks;
  const int target = std::max(2, static_cast<int>(box.w / (s.tick_size * 6)));
  for (const double v : nice_values(queries.begin, queries.end - 1, target, true))
    ticks.push_back({box.x + (v + 0.5 - queries.begin) / queries.size() * box.w, std::to_string(std::lround(v))});
  b.x_ticks(box, ticks);
  const double below = box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  b.label("Query", {box.centre().x, below});
}

double query_axis_height(const FigureStyle& s) {
  return FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
}

}  // namespace kvscope::views
