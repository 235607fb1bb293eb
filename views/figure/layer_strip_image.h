#pragma once
// How many KV heads of each layer retain each token, as numbers and as a picture: rows are layers, columns are tokens.

#include <atomic>
#include <vector>

#include "engine/core/record/run_record.h"
#include "views/figure/colormap.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

/// Means over the tokens of each cell that the policy had to choose on: sinks, window and what comes after q are left out.
struct LayerStrip {
  int columns = 0, rows = 0;
  std::vector<float> heads;  // [rows * columns] KV heads that see the token at q; NaN where no token was chosen on
};

/// Looks at each lifetime of the span once: O(span x layers x heads), 40 ms for 131072 x 36 x 8. `stop` may be set from
/// another thread: the rest is NaN then.
LayerStrip layer_strip(const RunRecord& run, std::int32_t q, const SpanCells& cells,
                       const std::atomic<bool>* stop = nullptr);

/// From none to all KV heads. Of single tokens there are only whole numbers, so that the steps of a discrete scale would be
/// the same colours.
inline Colour heads_colour(Colormap map, double heads, int n_kv_heads) { return sample(map, heads / n_kv_heads); }
Image layer_strip_image(const LayerStrip& strip, int n_kv_heads, Colormap map);

}  // namespace kvscope::views
