#pragma once
// What later queries give one token in one head, under a full cache: mean over the query heads of its group, their range
// as a band, and where A and B evict it (WG-KV Fig. 3).

#include <memory>
#include <span>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/record/token_attention.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct TokenAttentionOptions {
  std::shared_ptr<const TokenAttention> attention;  // whose first token it is; never null
  int kv_head = 0;
  bool logarithmic = true;
  int first = 0, count = 0;  // queries shown; count 0: from the token to the end
  int points = 512;          // at most; each averages as many queries
  bool preview = false, preview_b = false;
  std::string name_a = "A", name_b = "B";
  bool operator==(const TokenAttentionOptions&) const = default;
};
/// The least that a logarithmic axis shows; what is less lies on it.
inline constexpr double kLeastAttention = 1e-6;

/// runs: A, and B if there is one; both of the tokens that the attention was measured on. Panels: "attention"
/// (continuous). Data: first, last (queries), mean, low, high: of a point, mean over its queries and the group's heads, least
/// and greatest of them. Throws Error (bad input): no run, other tokens, a head that is none.
BuiltFigure token_attention_figure(std::span<const RunRecord* const> runs, const TokenAttentionOptions& options,
                                   const FigureStyle& style);

}  // namespace kvscope::views
