#pragma once
// Tokens along x, layers (or the KV heads of one layer) along y, colour = how many heads retain the token (KVpop Fig
// 6).

#include <cstdint>

#include "engine/core/record/run_record.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

inline constexpr int kMaxStripTokens = 1 << 20;
inline constexpr int kMaxStripColumns = 2048;  // of a band: where there are more tokens, a column has their mean

enum class ColourMode : std::uint8_t { state, score, kept_heads, oracle };

struct TokenStripOptions {
  std::int32_t q = -1;                    // query position; -1: the last
  int count = 112;                        // tokens shown
  int first = -1;                         // first token; -1: the last `count` that the policy had to choose on
  bool evictable_only = true;             // without sinks and window, as the paper
  int layer = -1;                         // >= 0: rows are the KV heads of this layer
  int kv_head = -1;                       // >= 0, with layer: this head alone
  ColourMode colour = ColourMode::state;  // of KV heads; layers have the number of heads that retain the token
  bool with_b = false;  // with kv_head: a second row, the token's state in run B where both runs' tokens agree
  Colormap colormap = Colormap::viridis;
  int bands = 0;       // the strip is broken into so many lines; 0: as few as leave the labels readable
  bool labels = true;  // token strings where the columns are wide enough
  bool preview = false;
  bool preview_b = false;  // B is one
  bool operator==(const TokenStripOptions&) const = default;
};

/// Panels: "strip", "strip.1" ... one per band (rows = layers or KV heads, columns = tokens). Data: position, token_id,
/// token, layer, kept_heads (of n_kv_heads), or kv_head and kept with `layer` given, with what colours them (score,
/// kept_heads, oracle) and, with B, the run. Of layers with more tokens than columns it has the columns: position of the
/// first token, tokens, layer and the mean of kept_heads over those that the policy had to choose on. Throws Error (bad input): empty run, layer, head or range outside,
/// with_b without `b`.
BuiltFigure token_strip_figure(const RunRecord& run, const TokenStripOptions& options, const FigureStyle& style,
                               const RunRecord* b = nullptr);

/// KV heads of `layer` that see token t at query q.
int kept_heads(const RunRecord& run, int layer, std::int32_t t, std::int32_t q);

}  // namespace kvscope::views
