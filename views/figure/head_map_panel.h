#pragma once
// One layer x head map with its axes, as every figure that has maps draws it.

#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"
#include "views/figure/head_set.h"

namespace kvscope::views {

struct HeadMapLook {
  bool values = true;  // print the value in a cell where it fits
  bool layer_zero_on_top = true;
  const std::vector<int>* order = nullptr;  // [layers][places] the head at each place; null: place h is head h
  const HeadSet* marked = nullptr;          // outlined
  bool board = false;                       // what is not marked is pale and hatched: a local head
  bool layer_numbers = true;                // at the left; a map beside it may have the same
  double title_room =
      std::numeric_limits<double>::infinity();  // of the title below, which is left out where it has less
};
/// " Hatched: no value." for a caption, where one of these maps has a head without one; else empty.
std::string_view hatch_note(std::span<const HeadMap> maps);
/// What is written below a map: the longest title that fits, empty where none does. `box_width` is the map's, which a long one
/// does not reach far beyond.
std::string_view head_axis_title(const FigureStyle& style, bool sorted, double box_width, double room);
/// Cells, ticks and head_axis_title() below; registers the panel `id` (rows = layers, columns = places). NaN is hatched.
void draw_head_map(FigureBuilder& b, const std::string& id, const Box& box, const HeadMap& map,
                   const ColourScale& scale, const HeadMapLook& look);

}  // namespace kvscope::views
