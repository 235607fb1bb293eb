#pragma once
// The fields of the user interface's state, each said once with its range, in the manner of run_fields.h: the file of the
// workspace, the settings, and the words of Undo are visits of these. A new field is one line here.

#include "app/session/next_run.h"
#include "app/workspace/layout.h"
#include "engine/core/record/run_fields.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

/// A field whose values have names.
struct Named {
  std::span<const std::string_view> names;  // of the values 0, 1, ...
};

inline constexpr std::string_view kColourNames[] = {"state", "score", "kept_heads", "oracle"};
inline constexpr std::string_view kLifeOrderNames[] = {"position", "cost", "life"};
inline constexpr std::string_view kAggregateNames[] = {"median", "mean", "min", "max", "iqr"};
inline constexpr std::string_view kGridCellsNames[] = {"heads", "tokens"};
inline constexpr std::string_view kUnseenHeadsNames[] = {"head", "layer", "all"};
inline constexpr std::string_view kProbeQuantityNames[] = {"kept", "score"};
inline constexpr std::string_view kCompareNames[] = {"none", "side_by_side", "difference"};
inline constexpr std::string_view kProfileNames[] = {"age", "position", "class"};
inline constexpr std::string_view kFingerprintOrderNames[] = {"layer", "cluster"};
inline constexpr std::string_view kIntervalNames[] = {"none", "whiskers", "band"};
/// Of views::Colormap, those that a person chooses from.
inline constexpr std::string_view kMapColourNames[] = {"viridis", "cividis"};
/// In the order of the enumeration.
std::span<const std::string_view> metric_names();
std::span<const std::string_view> run_measure_names();

/// Of Selection and ViewLook.
template <typename T, typename Visit>
void visit_look(T& l, Visit&& visit) {
  visit("colour", l.colour, Named{kColourNames});
  visit("metric", l.metric, Named{metric_names()});
  visit("metric_chosen", l.metric_chosen, AnyValue{});
  visit("map_compare", l.map.compare, Named{kCompareNames});
  visit("map_sorted", l.map.sort, AnyValue{});
  visit("map_by_layer", l.map.by_layer, AnyValue{});
  visit("map_fit", l.map.fit, AnyValue{});
  visit("map_lock", l.map.lock, AnyValue{});
  visit("map_range", l.map.clip, AnyValue{});
  visit("map_range_b", l.map.clip_b, AnyValue{});
  visit("map_aggregate", l.map.aggregate, Named{kAggregateNames});
  visit("layers", l.layers, AnyValue{});
  visit("lost_by_layer", l.lost_by_layer, AnyValue{});
  visit("fingerprint_profile", l.fingerprints.profile, Named{kProfileNames});
  visit("fingerprint_order", l.fingerprints.order, Named{kFingerprintOrderNames});
  visit("life_order", l.lifetimes.order, Named{kLifeOrderNames});
  visit("life_rows", l.lifetimes.rows, FieldRange{0, kMaxPositions});
  visit("life_rows_of", l.lifetimes.rows_of, FieldRange{0, kMaxPositions});
  visit("unseen_heads", l.unseen_heads, Named{kUnseenHeadsNames});
  visit("unseen_whole", l.unseen_whole, AnyValue{});
  visit("run_grid_cells", l.run_grid.cells, Named{kGridCellsNames});
  visit("run_grid_measure", l.run_grid.measure, Named{run_measure_names()});
  visit("gates_source", l.gate_training.source, AnyValue{});
  visit("gates_step", l.gate_training.step, FieldRange{-1, 1 << 30});
  visit("gates_quantity", l.gate_training.quantity, Named{kProbeQuantityNames});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, InstanceLook>
void visit_fields(T& i, Visit&& visit) {
  constexpr FieldRange index{0, 1 << 16};
  visit_look(i.look, visit);
  visit("own_head", i.own_head, AnyValue{});
  visit("layer", i.layer, index);
  visit("kv_head", i.kv_head, index);
}

/// Of Layout and OwnLayout.
template <typename T, typename Visit>
void visit_shown(T& l, Visit&& visit) {
  visit("left_panel", l.left, AnyValue{});
  visit("inspector", l.right, AnyValue{});
  visit("time_deck", l.bottom, AnyValue{});
  visit("log", l.log, AnyValue{});
  visit("arrangement", l.arrangement, AnyValue{});
  visit("looks", l.looks, AnyValue{});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, Layout>
void visit_fields(T& l, Visit&& visit) {
  visit_shown(l, visit);
  visit("all_parameters", l.all_parameters, AnyValue{});
  visit("maximised", l.maximised, AnyValue{});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, Appearance>
void visit_fields(T& a, Visit&& visit) {
  visit("dark", a.dark, AnyValue{});
  visit("colours", a.colours, Named{kMapColourNames});
  visit("zoom", a.zoom, FieldRange{0.5, 3});
  visit("own_layouts", a.own_layouts, AnyValue{});
}

/// Policy and sampling have texts and fields of their own.
template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, RunSettings>
void visit_fields(T& s, Visit&& visit) {
  visit("raw", s.raw, AnyValue{});
  visit("max_tokens", s.max_tokens, FieldRange{0, kMaxPositions});
  visit("output_error", s.output_error, AnyValue{});
  visit("stop", s.stop, AnyValue{});
  visit("budgets", s.budgets, AnyValue{});
  visit("conversation", s.chat, AnyValue{});
}

/// What is hovered or searched for, and that it plays, is not of it.
template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, views::Selection>
void visit_fields(T& s, Visit&& visit) {
  constexpr FieldRange index{0, 1 << 16};
  visit_look(s, visit);
  visit("layer", s.layer, index);
  visit("kv_head", s.kv_head, index);
  visit("token", s.token, FieldRange{-1, kMaxPositions});
  visit("q", s.q, FieldRange{0, kMaxPositions});
  visit("heads", s.heads, AnyValue{});
  visit("run_table_sort", s.run_table.sort, AnyValue{});
  visit("run_table_descending", s.run_table.descending, AnyValue{});
  visit("run_table_x", s.run_table.x, Named{run_measure_names()});
  visit("run_table_y", s.run_table.y, Named{run_measure_names()});
  visit("runs", s.runs, FieldRange{1, 1 << 30});
  visit("board_heads", s.board.global, AnyValue{});
  visit("board_rule", s.board.rule, AnyValue{});
  visit("board_share", s.board.share, FieldRange{0, 1});
  visit("board_seed", s.board.seed, FieldRange{0, 1 << 30});
  visit("board_context", s.board.context, FieldRange{0, kMaxPositions});
  visit("study_open", s.study.open, AnyValue{});
  visit("study_shown", s.study.shown, AnyValue{});
  visit("study_x", s.study.x, AnyValue{});
  visit("study_y", s.study.y, AnyValue{});
  visit("study_by", s.study.by, AnyValue{});
  visit("study_panel", s.study.panel, AnyValue{});
  visit("study_where", s.study.where, AnyValue{});
  visit("study_front", s.study.front, AnyValue{});
  visit("study_log_x", s.study.log_x, AnyValue{});
  visit("study_log_y", s.study.log_y, AnyValue{});
  visit("study_smooth", s.study.smooth, FieldRange{1, views::kMaxSmooth});
  visit("study_interval", s.study.interval, Named{kIntervalNames});
  visit("study_point", s.study.point, FieldRange{-1, 1 << 24});
  visit("study_piece", s.study.piece, FieldRange{0, 1 << 24});
  visit("at_edge", s.at_edge, AnyValue{});
  if (!s.at_edge) visit("view", s.view, FieldRange{0, kMaxPositions});  // else it moves with the run by itself
  visit("rows", s.rows, FieldRange{0, kMaxPositions});
  visit("brush", s.brush, FieldRange{0, kMaxPositions});
  visit("play_speed", s.play.speed, FieldRange{1, views::kMaxPlaySpeed});
  visit("play_loop", s.play.loop, AnyValue{});
  visit("pins", s.pins, AnyValue{});
  visit("run_notes", s.run_notes, AnyValue{});
}

}  // namespace kvscope::app
