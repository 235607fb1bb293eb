#pragma once
// The keys of each kind of figure in a recipe, said once: read, written and listed from here by recipe.cpp.

#include <string_view>

#include "views/figure/figure_options.h"

namespace kvscope::views {

inline constexpr std::string_view kAggregates[] = {"median", "mean", "min", "max", "iqr"};
inline constexpr std::string_view kColours[] = {"state", "score", "kept_heads", "oracle"};
inline constexpr std::string_view kCompares[] = {"none", "side_by_side", "difference"};
inline constexpr std::string_view kMapPanels[] = {"difference", "spread"};
inline constexpr std::string_view kIntervals[] = {"none", "whiskers", "band"};
inline constexpr std::string_view kHeadOrders[] = {"mass", "layer"};
inline constexpr std::string_view kProfiles[] = {"age", "position", "class"};
inline constexpr std::string_view kFingerprintOrders[] = {"layer", "cluster"};
inline constexpr std::string_view kLifeOrders[] = {"position", "cost", "life"};
inline constexpr std::string_view kGridCells[] = {"heads", "tokens"};
inline constexpr std::string_view kProbeQuantities[] = {"kept", "score"};
/// Of RunMeasure, in its order.
inline constexpr std::string_view kRunMeasureNames[] = {"nll_answer",     "nll_text",    "above_chance", "cache_size",
                                                        "cache_size_end", "cache_bytes", "ms_per_token", "tokens"};
static_assert(std::size(kRunMeasureNames) == kRunMeasures);
inline constexpr std::string_view kQuantities[] = {"nll",          "cached",      "density",       "recall",
                                                   "output_error", "cache_bytes", "page_occupancy"};

/// V has operator()(key, value) for each type, choice() for enums, and says in kReads whether it changes the options.
template <typename V>
void visit_fields(LayerHeadMapOptions& o, V& v) {
  v("metric", o.metric);
  v("q", o.q);
  v.choice("aggregate", o.aggregate, kAggregates);
  v.choice("compare", o.compare, kCompares);
  if (V::kReads || o.compare != MapCompare::none) v("common_oracle", o.common_oracle);
  v("colormap", o.colormap);
  v("lo", o.lo);
  v("hi", o.hi);
  v("fit", o.fit);
  v("values", o.values);
  v("marginal", o.marginal);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
  v("layer_zero_on_top", o.layer_zero_on_top);
  // How a person looked at it is written where it is not as it was.
  const LayerHeadMapOptions plain;
  const auto unless_plain = [&](std::string_view key, auto& value, const auto& usual) {
    if (V::kReads || !(value == usual)) v(key, value);
  };
  unless_plain("sort", o.sort, plain.sort);
  unless_plain("by_layer", o.by_layer, plain.by_layer);
  unless_plain("lock", o.lock, plain.lock);
  unless_plain("clip", o.clip, plain.clip);
  unless_plain("clip_b", o.clip_b, plain.clip_b);
  unless_plain("histogram", o.histogram, plain.histogram);
  unless_plain("heads", o.heads, plain.heads);
  unless_plain("board", o.board, plain.board);
}
template <typename V>
void visit_fields(TokenStripOptions& o, V& v) {
  v("q", o.q);
  v("count", o.count);
  v("first", o.first);
  v("evictable_only", o.evictable_only);
  v("layer", o.layer);
  v("colormap", o.colormap);
  v("bands", o.bands);
  v("labels", o.labels);
  v("preview", o.preview);
  // What only a strip of heads has is written for those that use it.
  if (!V::kReads && o.kv_head < 0 && o.colour == ColourMode::state) return;
  v("kv_head", o.kv_head);
  v.choice("colour", o.colour, kColours);
  v("with_b", o.with_b);
  v("preview_b", o.preview_b);
}
template <typename V>
void visit_fields(TimelineOptions& o, V& v) {
  v("layer", o.layer);
  v("kv_head", o.kv_head);
  v("occupancy", o.occupancy);
  v("preview", o.preview);
  // A part of the run is written where one is shown.
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
  if (V::kReads || o.token_count > 0) v("token_first", o.token_first), v("token_count", o.token_count);
}

template <typename V>
void visit_fields(MetricByLayerOptions& o, V& v) {
  v("metric", o.metric);
  v("q", o.q);
  v("with_b", o.with_b);
  v("common_oracle", o.common_oracle);
  v("chance", o.chance);
  v("lo", o.lo);
  v("hi", o.hi);
  v("fit", o.fit);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
  if (V::kReads || !o.heads.empty()) v("heads", o.heads);
}
template <typename V>
void visit_fields(CurvesOptions& o, V& v) {
  v.choice("quantity", o.quantity, kQuantities);
  v("points", o.points);
  v.choice("compare", o.compare, kCompares);
  v("band", o.band);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
  if (V::kReads || !o.heads.empty()) v("heads", o.heads);
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
}

template <typename V>
void visit_fields(TokenAttentionOptions& o, V& v) {
  v("attention", o.attention);  // no trace has it: the recipe brings it along
  v("kv_head", o.kv_head);
  v("logarithmic", o.logarithmic);
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
  v("points", o.points);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
}

template <typename V>
void visit_fields(MapPanelsOptions& o, V& v) {
  v("metric", o.metric);
  v("q", o.q);
  v.choice("panels", o.panels, kMapPanels);
  v("runs_a", o.runs_a);
  v("colormap", o.colormap);
  v("lo", o.lo);
  v("hi", o.hi);
  v("fit", o.fit);
  v("values", o.values);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
  v("layer_zero_on_top", o.layer_zero_on_top);
}
template <typename V>
void visit_fields(StudyPick& o, V& v) {
  v("x", o.x);
  v("y", o.y);
  v("series", o.series);
  v("panel", o.panel);
  v("where", o.where);
  v("combine", o.combine);
  v("dense", o.dense);
}
template <typename V>
void visit_fields(StudyLinesOptions& o, V& v) {
  visit_fields(o.pick, v);
  v("front", o.pick.front);
  v("knee", o.pick.knee);
  v("log_x", o.log_x);
  v("log_y", o.log_y);
  v("zero", o.zero);
  v("line", o.line);
  v("marks", o.marks);
  v("smooth", o.smooth);
  v.choice("interval", o.interval, kIntervals);
  v("columns", o.columns);
  v("x_label", o.x_label);
  v("y_label", o.y_label);
}
template <typename V>
void visit_fields(StudyBarsOptions& o, V& v) {
  visit_fields(o.pick, v);
  v("interval", o.interval);
  v("values", o.values);
  v("columns", o.columns);
  v("x_label", o.x_label);
}
template <typename V>
void visit_fields(ColumnSpreadOptions& o, V& v) {
  v("x", o.x);
  v("prefix", o.prefix);
  v("where", o.where);
  v("each", o.each);
  v("named", o.named);
  v("log_x", o.log_x);
  v("lo", o.lo);
  v("hi", o.hi);
  v("x_label", o.x_label);
  v("y_label", o.y_label);
}
template <typename V>
void visit_fields(DecodeFlopsOptions& o, V& v) {
  v("context", o.context);
  v("share", o.share);
  v("log_x", o.log_x);
  v("log_y", o.log_y);
}
template <typename V>
void visit_fields(ScalingFitOptions& o, V& v) {
  v("x", o.x);
  v("y", o.y);
  v("series", o.series);
  v("where", o.where);
  v("fit", o.fit);
  v("x_label", o.x_label);
  v("y_label", o.y_label);
}
template <typename V>
void visit_fields(LostFactOptions& o, V& v) {
  v("token", o.token);
  v("n_tokens", o.n_tokens);
  v.choice("order", o.order, kHeadOrders);
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
  if (V::kReads || !o.names.empty()) v("names", o.names);
  if (V::kReads || !o.previews.empty()) v("previews", o.previews);
}
template <typename V>
void visit_fields(LifetimesOptions& o, V& v) {
  v("layer", o.layer);
  v("kv_head", o.kv_head);
  v.choice("order", o.order, kLifeOrders);
  v("preview", o.preview);
  // A part is written where one is shown.
  if (V::kReads || o.token > 0 || o.n_tokens > 0) v("token", o.token), v("n_tokens", o.n_tokens);
  if (V::kReads || o.n_rows > 0) v("row", o.row), v("n_rows", o.n_rows);
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
}
template <typename V>
void visit_fields(RunPointsOptions& o, V& v) {
  v.choice("x", o.x, kRunMeasureNames);
  v.choice("y", o.y, kRunMeasureNames);
  v("names", o.names);
  if (V::kReads || !o.drawn.empty()) v("drawn", o.drawn);
}
template <typename V>
void visit_fields(RunCardOptions& o, V& v) {
  v("q", o.q);
  v("metric", o.metric);
  v("colormap", o.colormap);
  v("fit", o.fit);
  v("preview", o.preview);
}
template <typename V>
void visit_fields(FingerprintOptions& o, V& v) {
  v.choice("profile", o.profile, kProfiles);
  v.choice("order", o.order, kFingerprintOrders);
  v("layer", o.layer);
  v("kv_head", o.kv_head);
  if (V::kReads || !o.names.empty()) v("names", o.names);
  if (V::kReads || !o.previews.empty()) v("previews", o.previews);
}
template <typename V>
void visit_fields(AnswerDifferenceOptions& o, V& v) {
  v("q", o.q);
  if (V::kReads || o.first >= 0) v("first", o.first);
  if (V::kReads || !o.names.empty()) v("names", o.names);
}
template <typename V>
void visit_fields(UnseenTokensOptions& o, V& v) {
  v("unseen", o.unseen);  // no trace has it: the recipe brings it along
  v("whole", o.whole);
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
  v("preview", o.preview);
}

template <typename V>
void visit_fields(RunGridOptions& o, V& v) {
  v.choice("cells", o.cells, kGridCells);
  v("metric", o.metric);
  v("q", o.q);
  v.choice("measure", o.measure, kRunMeasureNames);
  v("colormap", o.colormap);
  v("fit", o.fit);
  if (V::kReads || !o.names.empty()) v("names", o.names);
}
template <typename V>
void visit_fields(GateTrainingOptions& o, V& v) {
  v("source", o.source);
  v("step", o.step);
  v.choice("quantity", o.quantity, kProbeQuantities);
  v("colormap", o.colormap);
}

}  // namespace kvscope::views
