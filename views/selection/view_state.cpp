#include "views/selection/view_state.h"

#include <algorithm>
#include <cmath>

namespace kvscope::views {

Cursor cursor(const Selection& selection, const RunRecord& run) {
  const std::int32_t last = run.n_tokens() - 1;
  return {.layer = std::clamp(selection.layer, 0, std::max(0, run.evict_at.n_layers() - 1)),
          .kv_head = std::clamp(selection.kv_head, 0, std::max(0, run.evict_at.n_kv_heads() - 1)),
          .token = std::clamp(selection.token, -1, last),
          .q = std::clamp(selection.q.value_or(last), 0, last)};
}

ViewLook look_of(const Selection& s) {
  return {.colour = s.colour,
          .metric = s.metric,
          .metric_chosen = s.metric_chosen,
          .map = s.map,
          .layers = s.layers,
          .lost_by_layer = s.lost_by_layer,
          .fingerprints = s.fingerprints,
          .lifetimes = s.lifetimes,
          .unseen_heads = s.unseen_heads,
          .unseen_whole = s.unseen_whole,
          .run_grid = s.run_grid,
          .gate_training = s.gate_training};
}

void set_look(Selection& s, const ViewLook& look) {
  s.colour = look.colour, s.metric = look.metric, s.metric_chosen = look.metric_chosen;
  s.map = look.map, s.layers = look.layers, s.lost_by_layer = look.lost_by_layer;
  s.fingerprints = look.fingerprints;
  s.lifetimes = look.lifetimes;
  s.unseen_heads = look.unseen_heads, s.unseen_whole = look.unseen_whole;
  s.run_grid = look.run_grid;
  s.gate_training = look.gate_training;
}

void choose_metric(Selection& selection, Metric metric) {
  if (selection.metric != metric) {
    selection.map.clip = selection.map.clip_b = {};
    // A scale from 0 to 1 is of no use to a metric without a natural maximum; one that a person fitted stays so.
    const bool fits = !metric_info(metric).is_share, fitted = !metric_info(selection.metric).is_share;
    if (fits != fitted) selection.map.fit = fits;
  }
  selection.metric = metric;
  selection.metric_chosen = true;
}

void start_over(Selection& selection) {
  selection.token = selection.hovered_token = -1;
  selection.q.reset();
  selection.view = selection.rows = selection.brush = {};
  selection.lifetimes.rows = selection.lifetimes.rows_of = {};
  selection.at_edge = selection.play.on = false;
}

TokenSpan shown_span(const Selection& selection, int n) {
  if (!selection.view.empty() && selection.at_edge) return clamp_span({n - selection.view.size(), n}, n);
  return clamp_span(selection.view, n);
}

TokenSpan shown_rows(const Selection& selection, int n) { return clamp_span(selection.rows, n); }

TokenSpan shown_life_rows(const Selection& selection, int n) {
  const LifetimesLook& look = selection.lifetimes;
  return clamp_span(look.rows_of == selection.brush ? look.rows : TokenSpan{}, n);
}

void show_span(Selection& selection, TokenSpan span, const RunRecord& run) {
  const int n = run.n_tokens();
  span = clamp_span(span, n);
  const bool whole = span.size() >= n;
  selection.view = whole ? TokenSpan{} : span;
  selection.at_edge = !whole && span.end == n && run.status == RunStatus::running;
}

void show_all(Selection& selection, const RunRecord& run) {
  selection.rows = selection.lifetimes.rows = selection.lifetimes.rows_of = {};
  show_span(selection, {}, run);
}

void scrub_to(Selection& selection, std::int32_t q, const RunRecord& run) {
  const int n = run.n_tokens();
  if (n == 0) return;
  const std::int32_t before = cursor(selection, run).q;
  q = std::clamp(q, 0, n - 1);
  selection.q = q;
  const TokenSpan span = shown_span(selection, n);
  if (!span.contains(before) || span.contains(q)) return;
  const std::int32_t by = q < span.begin ? q - span.begin : q - (span.end - 1);
  show_span(selection, {span.begin + by, span.end + by}, run);
}

void reveal_token(Selection& selection, std::int32_t token, const RunRecord& run) {
  const TokenSpan span = shown_span(selection, run.n_tokens());
  if (span.contains(token)) return;
  show_span(selection, {token - span.size() / 2, token - span.size() / 2 + span.size()}, run);
}

void go_to_pin(Selection& selection, const PlacedPin& placed, const RunRecord& run) {
  if (placed.place != PinPlace::here) return;
  selection.layer = placed.pin.layer, selection.kv_head = placed.pin.kv_head, selection.token = placed.pin.token;
  reveal_token(selection, placed.pin.token, run);
}

void follow_end(Selection& selection, const RunRecord& run) {
  const int n = run.n_tokens();
  selection.q.reset();
  selection.play.on = false;
  if (!selection.view.empty()) show_span(selection, {n - selection.view.size(), n}, run);
}

void play_on(Selection& selection, const RunRecord& run, double seconds) {
  Playback& play = selection.play;
  const int n = run.n_tokens();
  if (!play.on || n == 0) return;
  const TokenSpan span = selection.brush.empty() ? shown_span(selection, n) : clamp_span(selection.brush, n);
  std::int32_t q = cursor(selection, run).q;
  if (!selection.q || q < span.begin || q >= span.end) q = span.begin;  // from the end it begins again
  play.carry += seconds * play.speed;
  const double whole = std::floor(play.carry + 1e-9);  // ten tenths are one
  play.carry -= whole;
  std::int64_t next = q + static_cast<std::int64_t>(whole);
  if (next >= span.end - 1) {
    if (play.loop) {
      next = span.begin + (next - span.begin) % span.size();
    } else {
      next = span.end - 1;
      play.on = false;
    }
  }
  scrub_to(selection, static_cast<std::int32_t>(next), run);
}

bool drawable(const ShownRun* shown) {
  return shown != nullptr && shown->run != nullptr && shown->run->n_tokens() > 0 && !shown->run->evict_at.empty();
}

std::int32_t ViewContext::q() const {
  return a == nullptr || a->run->n_tokens() == 0 ? -1 : cursor(*selection, *a->run).q;
}

std::vector<ShownRun> ViewContext::counted_runs(bool with_b) const {
  if (set != nullptr) return *set;
  std::vector<ShownRun> runs = {*a};
  if (with_b && b != nullptr) runs.push_back(*b);
  return runs;
}

HeadSet ViewContext::marked_heads() const {
  return drawable(a) ? selection->heads.within(a->run->evict_at.n_layers(), a->run->evict_at.n_kv_heads()) : HeadSet();
}

Cursor ViewContext::cursor_in(const RunRecord& run) const {
  Selection at_a = *selection;
  at_a.q = q();
  return cursor(at_a, run);
}

}  // namespace kvscope::views
