#include "views/widgets/brush_summary.h"

#include <algorithm>

#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {

const std::string& BrushSummary::line(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  const TokenSpan brush = clamp_span(context.selection->brush, run.n_tokens());
  if (!rebuild_.due({RunKey(context.a), at.layer, at.kv_head, at.q, brush})) return line_;
  const std::int32_t read = std::clamp(at.q + 1, brush.begin, brush.end);  // later ones are not there yet
  int in_head = 0;
  std::int64_t in_all = 0;
  for (int l = 0; l < run.evict_at.n_layers(); ++l) {
    for (int h = 0; h < run.evict_at.n_kv_heads(); ++h) {
      int seen = 0;
      for (std::int32_t t = brush.begin; t < read; ++t) seen += visible(at.q, t, lifetime_of(run, l, h, t));
      in_all += seen;
      if (l == at.layer && h == at.kv_head) in_head = seen;
    }
  }
  const int n = read - brush.begin;
  line_ = "tokens " + std::to_string(brush.begin) + "–" + std::to_string(brush.end - 1) + ": ";
  if (n == 0) {
    line_ += "not read yet";
  } else {
    line_ += std::to_string(in_head) + " of " + std::to_string(n) + " in the cache, mean " +
             format_number(static_cast<double>(in_all) / n / run.evict_at.n_layers(), 3) + " of " +
             std::to_string(run.evict_at.n_kv_heads()) + " heads per layer";
  }
  rebuild_.done();
  return line_;
}

}  // namespace kvscope::views
