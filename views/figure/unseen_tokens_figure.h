#pragma once
// What a query could not see: its attention under a full cache by token, the part on evicted tokens hatched, and by head the
// share that is missing.

#include <memory>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/unseen_attention.h"
#include "views/figure/figure_style.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

struct UnseenTokensOptions {
  std::shared_ptr<const UnseenAttention> unseen;  // never null
  bool whole = false;        // the axis goes up to the greatest bar; else to the greatest one outside sinks and window
  int first = 0, count = 0;  // tokens shown; count 0: all up to the query
  bool preview = false;
  bool operator==(const UnseenTokensOptions&) const = default;
};

/// The tokens of the axis.
TokenSpan unseen_tokens_drawn(const UnseenTokensOptions& options);
/// The bars of an axis so many points wide: one of several tokens is their sum.
SpanCells unseen_bars(const UnseenTokensOptions& options, double width);

/// "L3 H1", "layer 3, mean over 8 heads", "mean over 288 heads"
std::string unseen_heads_text(const UnseenAttention& unseen);
/// "11 %"
std::string share_words(double share);
/// `"48213" (token 352)`
std::string token_words(const RunRecord& run, std::int32_t t);
/// `Query 142, L3 H1: 11 % of its attention would go to 37 evicted tokens; most to "48213" (token 352): 6.1 %.`
std::string unseen_sentence(const RunRecord& run, const UnseenAttention& unseen);

/// Panels: "bars" (continuous) and, where there is room, "missing" (layers x KV heads). Data: a row for each token that is drawn
/// (mark "token": token, held, evicted, heads_without) and for each head (mark "head": layer, kv_head, missing).
/// Throws Error (bad input): no attention, of another run or model, or of a layer that has a window by the model's design.
BuiltFigure unseen_tokens_figure(const RunRecord& run, const UnseenTokensOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
