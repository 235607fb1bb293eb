#pragma once
// The options of any figure: one struct a kind of figure.

#include <string_view>
#include <variant>

#include "views/figure/layer_head_map_figure.h"
#include "views/figure/timeline_figure.h"
#include "views/figure/token_strip_figure.h"

namespace kvscope::views {

using FigureOptions = std::variant<LayerHeadMapOptions, TokenStripOptions, TimelineOptions>;

std::string_view figure_name(const FigureOptions& options);  // "layer_head_map", "token_strip", "timeline"

}  // namespace kvscope::views
