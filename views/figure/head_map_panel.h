#pragma once
// One layer x head map with its axes, as every figure that has maps draws it.

#include <string>

#include "engine/core/study/retention_metrics.h"
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
};
/// Cells, ticks and "KV head" below; registers the panel `id` (rows = layers, columns = places). NaN is hatched.
void draw_head_map(FigureBuilder& b, const std::string& id, const Box& box, const HeadMap& map,
                   const ColourScale& scale, const HeadMapLook& look);

}  // namespace kvscope::views
