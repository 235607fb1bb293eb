#include "views/figure/timeline_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/lifeline_image.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {
namespace {

constexpr double kPaperCells = 10;  // to a point: finer than any printer, so that max_side decides

/// What is shown of a run, resolved: `cells_per_point` cells of the picture to a point, at most `max_side` of them.
struct Shown {
  TokenSpan queries, tokens;
  double cells_per_point;
  int max_side;
  int cells(double points) const { return std::clamp(static_cast<int>(points * cells_per_point), 1, max_side); }
};

/// Whole numbers, `need` points apart; closer, down to `least`, where there would be but one: a lone 0 is no scale.
std::vector<double> scale_values(double lo, double hi, double length, double need, double least) {
  int target = std::max(2, static_cast<int>(length / need));
  std::vector<double> values = nice_values(lo, hi, target, true);
  while (values.size() < 2 && target * least < length) {
    std::vector<double> finer = nice_values(lo, hi, ++target, true);
    if (finer.size() > 1 && (finer[1] - finer[0]) / (hi - lo) * length < least) break;
    values = std::move(finer);
  }
  return values;
}

std::vector<Tick> position_ticks(double from, double length, TokenSpan span, double need, double least, bool upwards) {
  std::vector<Tick> ticks;
  for (double v : scale_values(span.begin, span.end, length, need, least)) {
    const double offset = (v - span.begin) / span.size() * length;
    ticks.push_back({upwards ? from + length - offset : from + offset, std::to_string(std::lround(v))});
  }
  return ticks;
}

/// Area between `lower` and `upper`, one value a cell of the query positions.
Polygon band(const Box& box, const SpanCells& cells, const std::vector<double>& lower, const std::vector<double>& upper,
             double top, Colour colour) {
  const auto point = [&](int cell, double v) {
    const TokenSpan q = cells.tokens(cell);
    return Point{box.x + ((q.begin + q.end) / 2.0 - cells.span.begin) / cells.span.size() * box.w,
                 box.bottom() - v / top * box.h};
  };
  Polygon area{{}, colour};
  for (int i = 0; i < cells.cells; ++i) area.points.push_back(point(i, upper[static_cast<std::size_t>(i)]));
  for (int i = cells.cells; i-- > 0;) area.points.push_back(point(i, lower[static_cast<std::size_t>(i)]));
  return area;
}

double x_of_query(const Box& box, TokenSpan queries, std::int32_t q) {
  return box.x + static_cast<double>(q - queries.begin) / queries.size() * box.w;
}

/// What a head may hold under the policy, which the run began with or changed to; 0 if there is no budget.
int budget_of_head(const RunRecord& run, const TimelineOptions& o, const PolicySpec& policy) {
  const int of_policy = policy.budget_tokens(run.n_positions);
  return of_policy > 0 && !run.heads.empty() && policy == run.policy ? run.geometry(o.layer, o.kv_head).budget()
                                                                     : of_policy;
}

/// Dotted, with a step where the budget was changed.
void draw_budget(FigureBuilder& b, const Box& box, const RunRecord& run, const TimelineOptions& o, TokenSpan queries,
                 double top) {
  double before = NAN, from = box.x;
  const auto piece = [&](const PolicySpec& policy, double end) {
    const int budget = budget_of_head(run, o, policy);
    const double y = budget > 0 && budget <= top ? box.bottom() - budget / top * box.h : NAN;
    if (!std::isnan(before) && !std::isnan(y) && before != y && from > box.x)
      b.line({from, before}, {from, y}, b.style().ink, 0.7, 2);
    if (!std::isnan(y) && end > from) b.line({from, y}, {end, y}, b.style().ink, 0.7, 2);
    before = y, from = end;
  };
  const PolicySpec* policy = &run.policy;
  for (const PolicyChange& change : run.changes) {
    piece(*policy, std::clamp(x_of_query(box, queries, change.q), box.x, box.right()));
    policy = &change.policy;
  }
  piece(*policy, box.right());
}

/// Where the policy was changed: a line down the panel and a flag at its top.
void draw_changes(FigureBuilder& b, const Box& box, const RunRecord& run, TokenSpan queries) {
  for (const PolicyChange& change : run.changes) {
    const double x = x_of_query(box, queries, change.q), side = b.style().tick_size * 0.7;
    if (x < box.x || x > box.right()) continue;
    b.line({x, box.y}, {x, box.bottom()}, b.style().ink, 0.7);
    b.add(Polygon{{{x, box.y}, {x + side, box.y + side / 2}, {x, box.y + side}}, b.style().ink});
  }
}

double mean_over(const std::vector<std::int32_t>& values, TokenSpan q) {
  std::int64_t sum = 0;
  for (std::int32_t i = q.begin; i < q.end; ++i) sum += values[static_cast<std::size_t>(i)];
  return static_cast<double>(sum) / q.size();
}

void draw_occupancy(FigureBuilder& b, const Box& box, const RunRecord& run, const TimelineOptions& o,
                    const Shown& shown, double zero_above) {
  const FigureStyle& s = b.style();
  const Occupancy occ = occupancy(run, o.layer, o.kv_head);
  double top = 1;  // of the whole run: the scale stays while one pans
  for (std::size_t q = 0; q < occ.sinks.size(); ++q)
    top = std::max<double>(top, occ.sinks[q] + occ.long_range[q] + occ.window[q]);
  int budget = budget_of_head(run, o, run.policy);
  for (const PolicyChange& change : run.changes) budget = std::max(budget, budget_of_head(run, o, change.policy));
  if (budget > 0 && budget < 3 * top) top = std::max(top, static_cast<double>(budget));
  top *= 1.08;
  const SpanCells cells(shown.queries, std::min(shown.cells(box.w), static_cast<int>(box.w * 2) + 1));
  std::vector<double> base, sinks, kept, all;
  for (int i = 0; i < cells.cells; ++i) {
    const TokenSpan q = cells.tokens(i);
    base.push_back(0);
    sinks.push_back(mean_over(occ.sinks, q));
    kept.push_back(sinks.back() + mean_over(occ.long_range, q));
    all.push_back(kept.back() + mean_over(occ.window, q));
  }
  b.add(band(box, cells, base, sinks, top, state_colour(TokenState::sink, s.dark)));
  b.add(band(box, cells, sinks, kept, top, state_colour(TokenState::kept, s.dark)));
  b.add(band(box, cells, kept, all, top, state_colour(TokenState::window, s.dark)));
  draw_budget(b, box, run, o, shown.queries, top);
  b.frame(box);
  std::vector<Tick> y;
  const double room = s.tick_size * 1.1;
  const auto tick = [&](double v) { return Tick{box.bottom() - v / top * box.h, std::to_string(std::lround(v))}; };
  for (double v : scale_values(0, top, box.h, s.tick_size * 2.2, s.tick_size * 1.3)) {
    if (tick(v).at - zero_above >= room) y.push_back(tick(v));  // else it would be written over that
  }
  // A lone 0 is no scale either: the highest round number that has room over it.
  for (int target = 2; target < 12 && y.size() < 2; ++target) {
    for (const double v : nice_values(0, top, target, true)) {
      if (tick(v).at - zero_above < room || box.bottom() - tick(v).at < room) continue;
      if (y.size() > 1) y.pop_back();
      y.push_back(tick(v));
    }
  }
  b.y_ticks(box, y);
  b.label("In cache", {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
  b.figure().panels.push_back({"occupancy", box, 0, 0});
}

FigureData tidy(const RunRecord& run, const TimelineOptions& o, TokenSpan tokens) {
  const RetentionGeometry g = run.geometry();
  const int n = run.n_tokens();
  std::vector<std::int64_t> position, born, left;
  std::vector<double> evicted;
  std::vector<std::string> state;
  for (int t = tokens.begin; t < tokens.end; ++t) {
    const std::int32_t e = lifetime_of(run, o.layer, o.kv_head, t);
    position.push_back(t), born.push_back(t), left.push_back(static_cast<std::int64_t>(t) + g.window);
    evicted.push_back(e >= kUndecided ? std::nan("") : e);
    state.emplace_back(state_name(token_state(run, g, n - 1, t, e)));
  }
  return {{{"position", position}, {"born", born}, {"left_window", left}, {"evict_at", evicted}, {"state", state}}};
}

bool is_pooled(const RunRecord& run) { return policy_of(run.policy).plan(run.policy, run.geometry()).is_pooled(); }

std::vector<LegendEntry> legend_entries(const RunRecord& run, const TimelineOptions& o, bool dark) {
  std::vector<LegendEntry> entries;
  for (TokenState state : {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted}) {
    entries.push_back({LegendEntry::Mark::swatch, std::string(state_name(state)), state_colour(state, dark)});
  }
  if (!run.reads.empty())
    entries.push_back({LegendEntry::Mark::swatch, std::string(state_name(TokenState::unread)),
                       state_colour(TokenState::unread, dark)});
  const int budget = run.policy.budget_tokens(run.n_positions);
  if (o.occupancy && budget > 0)
    entries.push_back({LegendEntry::Mark::line, is_pooled(run) ? "budget (mean over heads)" : "budget",
                       dark ? Colour{230, 230, 230} : Colour{26, 26, 26}});
  return entries;
}

TokenSpan resolve_span(const char* key, int first, int count, int n) {
  if (count <= 0) return {0, n};
  if (first >= 0 && first < n) return {first, first + std::min(count, n - first)};
  throw Error({ExitCode::bad_input, "", key, std::to_string(first), "0 to " + std::to_string(n - 1), ""});
}

void check(const RunRecord& run, const TimelineOptions& o) {
  resolve_query(run, -1);
  if (o.layer < 0 || o.layer >= run.evict_at.n_layers() || o.kv_head < 0 || o.kv_head >= run.evict_at.n_kv_heads()) {
    throw Error({ExitCode::bad_input, "", "layer, kv_head", std::to_string(o.layer) + ", " + std::to_string(o.kv_head),
                 "below " + std::to_string(run.evict_at.n_layers()) + ", " + std::to_string(run.evict_at.n_kv_heads()),
                 ""});
  }
}

Box whole_points(const Box& box) {
  const double x = std::floor(box.x), y = std::floor(box.y);
  return {x, y, std::floor(box.right()) - x, std::floor(box.bottom()) - y};
}

/// The lifelines' box is cut to whole points where a cell is one: cells are pixels there.
Figure draw_timeline(const RunRecord& run, const TimelineOptions& o, const FigureStyle& s, const Shown& shown) {
  const std::string widest = std::to_string(run.n_tokens());
  FigureBuilder measure(s.width, 0, s);
  const auto legend = legend_entries(run, o, s.dark);
  const double left =
      s.label_size + 6 + text_width(widest, FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength;
  const double width = s.width - left - text_width(widest, FontRole::text, s.tick_size) / 2 - 2;
  const double top = measure.legend({0, 0}, width, legend, true) + 3 + (o.preview ? measure.preview_height() + 2 : 0);
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3,
               gap = o.preview ? 10 : 7;
  const double total = s.height > 0 ? std::max(s.height - top - bottom, 40.0) : s.width * 0.62;
  const double life_h = o.occupancy ? (total - gap) * 0.72 : total;

  FigureBuilder b(s.width, top + total + bottom, s);
  b.legend({left, 0}, width, legend);
  Box life{left, top, std::max(width, 2.0), life_h};
  if (shown.cells_per_point == 1) life = whole_points(life);
  Image image = lifeline_image(run, o.layer, o.kv_head,
                               {shown.queries, shown.tokens, shown.cells(life.w), shown.cells(life.h)}, s.dark);
  image.box = life;
  b.add(std::move(image));
  b.frame(life);
  draw_changes(b, life, run, shown.queries);
  b.figure().panels.push_back({"lifelines", life, 0, 0});
  b.y_ticks(life, position_ticks(life.y, life.h, shown.tokens, s.tick_size * 3, s.tick_size * 1.3, true));
  b.label("Token", {s.label_size / 2 + 1, life.centre().y}, Anchor::middle, 90);
  Box lowest = life;
  if (o.occupancy) {
    lowest = {life.x, life.bottom() + gap, life.w, top + total - life.bottom() - gap};
    draw_occupancy(b, lowest, run, o, shown, life.bottom());
  }
  b.x_ticks(lowest, position_ticks(lowest.x, lowest.w, shown.queries, s.tick_size * 6, s.tick_size * 3, false));
  b.label("Query position", {lowest.centre().x, lowest.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 +
                                                    s.label_size * 0.6});
  if (o.preview) {
    b.preview_frame(life);
    if (o.occupancy) b.preview_frame(lowest);
    b.preview_badge(left + width + 2, top - 4);
  }
  b.figure().title =
      "Cache of layer " + std::to_string(o.layer) + ", KV head " + std::to_string(o.kv_head) + " over time";
  return std::move(b.figure());
}

Shown shown_of(const RunRecord& run, const TimelineOptions& o, double cells_per_point, int max_side) {
  const int n = run.n_tokens();
  return {resolve_span("first", o.first, o.count, n), resolve_span("token_first", o.token_first, o.token_count, n),
          cells_per_point, max_side};
}

std::string describe_part(const TimelineOptions& o, const Shown& shown) {
  const auto range = [](TokenSpan span) { return std::to_string(span.begin) + "–" + std::to_string(span.end - 1); };
  std::string text;
  if (o.count > 0) text += "Queries " + range(shown.queries) + ". ";
  if (o.token_count > 0) text += "Tokens " + range(shown.tokens) + ". ";
  return text;
}

}  // namespace

Figure timeline_picture(const RunRecord& run, const TimelineOptions& o, const FigureStyle& s) {
  check(run, o);
  return draw_timeline(run, o, s, shown_of(run, o, 1, 1 << 14));
}

BuiltFigure timeline_figure(const RunRecord& run, const TimelineOptions& o, const FigureStyle& s, int max_side) {
  check(run, o);
  const Shown shown = shown_of(run, o, kPaperCells, max_side);
  Figure figure = draw_timeline(run, o, s, shown);
  std::string caption = figure.title + ": each token from its entry to its eviction" +
                        (o.occupancy ? ", and how many tokens are in the cache. " : ". ") + describe_part(o, shown) +
                        describe_run(run) + describe_preview(o.preview);
  return {std::move(figure), tidy(run, o, shown.tokens), std::move(caption)};
}

}  // namespace kvscope::views
