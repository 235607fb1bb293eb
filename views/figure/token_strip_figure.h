#pragma once
// Tokens along x, layers (or the KV heads of one layer) along y, colour = how many heads retain the token (KVpop Fig
// 6).

#include <cstdint>

#include "engine/core/record/run_record.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct TokenStripOptions {
  std::int32_t q = -1;         // query position; -1: the last
  int count = 112;             // tokens shown
  int first = -1;              // first token; -1: the last `count` that the policy had to choose on
  bool evictable_only = true;  // without sinks and window, as the paper
  int layer = -1;              // >= 0: rows are the KV heads of this layer
  Colormap colormap = Colormap::viridis;
  int bands = 0;       // the strip is broken into so many lines; 0: as few as leave the labels readable
  bool labels = true;  // token strings where the columns are wide enough
  bool preview = false;
  bool operator==(const TokenStripOptions&) const = default;
};

/// Panels: "strip", "strip.1" ... one per band (rows = layers or KV heads, columns = tokens). Data: position, token_id,
/// token, layer, kept_heads (of n_kv_heads), or kv_head and kept with `layer` given. Throws Error (bad input): empty
/// run, layer or range outside.
BuiltFigure token_strip_figure(const RunRecord& run, const TokenStripOptions& options, const FigureStyle& style);

/// KV heads of `layer` that see token t at query q.
int kept_heads(const RunRecord& run, int layer, std::int32_t t, std::int32_t q);

}  // namespace kvscope::views
