#include "views/figure/timeline_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/read_metrics.h"
#include "engine/core/study/retention_metrics.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {
namespace {

std::vector<Tick> position_ticks(double from, double length, int n, double need, bool upwards) {
  std::vector<Tick> ticks;
  for (double v : nice_values(0, n, std::max(2, static_cast<int>(length / need)), true)) {
    const double offset = v / n * length;
    ticks.push_back({upwards ? from + length - offset : from + offset, std::to_string(std::lround(v))});
  }
  return ticks;
}

/// Area between `lower` and `upper` over the query positions, at most one point per half point of paper.
Polygon band(const Box& box, const std::vector<double>& lower, const std::vector<double>& upper, double top,
             Colour colour) {
  const int n = static_cast<int>(upper.size());
  const int stride = std::max(1, static_cast<int>(n / (box.w * 2)));
  std::vector<int> at;
  for (int q = 0; q < n; q += stride) at.push_back(q);
  if (at.empty() || at.back() != n - 1) at.push_back(n - 1);
  const auto point = [&](int q, double v) {
    return Point{box.x + (q + 0.5) / n * box.w, box.bottom() - v / top * box.h};
  };
  Polygon area{{}, colour};
  for (int q : at) area.points.push_back(point(q, upper[q]));
  for (auto it = at.rbegin(); it != at.rend(); ++it) area.points.push_back(point(*it, lower[*it]));
  return area;
}

double x_of_query(const Box& box, const RunRecord& run, std::int32_t q) {
  return box.x + static_cast<double>(q) / std::max(1, run.n_tokens()) * box.w;
}

/// Dotted, with a step where the budget was changed.
void draw_budget(FigureBuilder& b, const Box& box, const RunRecord& run, double top) {
  double before = NAN, from = box.x;
  const auto piece = [&](const PolicySpec& policy, double end) {
    const int budget = policy.budget_tokens(run.n_positions);
    const double y = budget > 0 && budget <= top ? box.bottom() - budget / top * box.h : NAN;
    if (!std::isnan(before) && !std::isnan(y) && before != y) b.line({from, before}, {from, y}, b.style().ink, 0.7, 2);
    if (!std::isnan(y) && end > from) b.line({from, y}, {end, y}, b.style().ink, 0.7, 2);
    before = y, from = end;
  };
  const PolicySpec* policy = &run.policy;
  for (const PolicyChange& change : run.changes) {
    piece(*policy, std::min(box.right(), x_of_query(box, run, change.q)));
    policy = &change.policy;
  }
  piece(*policy, box.right());
}

/// Where the policy was changed: a line down the panel and a flag at its top.
void draw_changes(FigureBuilder& b, const Box& box, const RunRecord& run) {
  for (const PolicyChange& change : run.changes) {
    const double x = x_of_query(box, run, change.q), side = b.style().tick_size * 0.7;
    if (x > box.right()) continue;
    b.line({x, box.y}, {x, box.bottom()}, b.style().ink, 0.7);
    b.add(Polygon{{{x, box.y}, {x + side, box.y + side / 2}, {x, box.y + side}}, b.style().ink});
  }
}

void draw_occupancy(FigureBuilder& b, const Box& box, const RunRecord& run, const TimelineOptions& o) {
  const FigureStyle& s = b.style();
  const Occupancy occ = occupancy(run, o.layer, o.kv_head);
  const std::size_t n = occ.sinks.size();
  std::vector<double> base(n, 0), sinks(n), kept(n), all(n);
  double top = 1;
  for (std::size_t q = 0; q < n; ++q) {
    sinks[q] = occ.sinks[q];
    kept[q] = sinks[q] + occ.long_range[q];
    all[q] = kept[q] + occ.window[q];
    top = std::max(top, all[q]);
  }
  int budget = run.policy.budget_tokens(run.n_positions);
  for (const PolicyChange& change : run.changes)
    budget = std::max(budget, change.policy.budget_tokens(run.n_positions));
  if (budget > 0 && budget < 3 * top) top = std::max(top, static_cast<double>(budget));
  top *= 1.08;
  if (n > 0) {
    b.add(band(box, base, sinks, top, state_colour(TokenState::sink, s.dark)));
    b.add(band(box, sinks, kept, top, state_colour(TokenState::kept, s.dark)));
    b.add(band(box, kept, all, top, state_colour(TokenState::window, s.dark)));
  }
  draw_budget(b, box, run, top);
  b.frame(box);
  std::vector<Tick> y;
  for (double v : nice_values(0, top, std::max(2, static_cast<int>(box.h / (s.tick_size * 2.2))), true)) {
    y.push_back({box.bottom() - v / top * box.h, std::to_string(std::lround(v))});
  }
  b.y_ticks(box, y);
  b.label("In cache", {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
  b.figure().panels.push_back({"occupancy", box, 0, 0});
}

FigureData tidy(const RunRecord& run, const TimelineOptions& o) {
  const RetentionGeometry g = run.geometry();
  const int n = run.n_tokens();
  std::vector<std::int64_t> position, born, left;
  std::vector<double> evicted;
  std::vector<std::string> state;
  for (int t = 0; t < n; ++t) {
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
    entries.push_back({LegendEntry::Mark::line, is_pooled(run) ? "budget, mean of the heads" : "budget",
                       dark ? Colour{230, 230, 230} : Colour{26, 26, 26}});
  return entries;
}

}  // namespace

Image lifeline_image(const RunRecord& run, int layer, int kv_head, int max_side, bool dark) {
  const int n = run.n_tokens();
  const int bin = std::max(1, (n + max_side - 1) / std::max(max_side, 1)), side = (n + bin - 1) / bin;
  constexpr int kStates = 7;
  Colour palette[kStates];
  for (int i = 0; i < kStates; ++i) palette[i] = state_colour(static_cast<TokenState>(i), dark);
  palette[static_cast<int>(TokenState::future)].a = 0;
  const RetentionGeometry g = run.geometry();
  Image image{{}, side, side, std::vector<Colour>(static_cast<std::size_t>(side) * side)};
  std::vector<HeadReads> reads;  // of each column
  for (int c = 0; c < side && !run.reads.empty(); ++c) reads.emplace_back(run, layer, kv_head, c * bin);
  for (int r = 0; r < side; ++r) {
    const std::int32_t t = (side - 1 - r) * bin;  // token 0 at the bottom
    const std::int32_t evict_at = lifetime_of(run, layer, kv_head, t);
    for (int c = 0; c < side; ++c) {
      auto state = token_state(run, g, c * bin, t, evict_at);
      if (!reads.empty() && visible(c * bin, t, evict_at) && !reads[c].reads(t)) state = TokenState::unread;
      image.pixels[static_cast<std::size_t>(r) * side + c] = palette[static_cast<int>(state)];
    }
  }
  return image;
}

BuiltFigure timeline_figure(const RunRecord& run, const TimelineOptions& o, const FigureStyle& s, int max_side) {
  resolve_query(run, -1);
  if (o.layer < 0 || o.layer >= run.evict_at.n_layers() || o.kv_head < 0 || o.kv_head >= run.evict_at.n_kv_heads()) {
    throw Error({ExitCode::bad_input, "", "layer, kv_head", std::to_string(o.layer) + ", " + std::to_string(o.kv_head),
                 "below " + std::to_string(run.evict_at.n_layers()) + ", " + std::to_string(run.evict_at.n_kv_heads()),
                 ""});
  }
  const int n = run.n_tokens();
  FigureBuilder measure(s.width, 0, s);
  const auto legend = legend_entries(run, o, s.dark);
  const double left =
      s.label_size + 6 + text_width(std::to_string(n), FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength;
  const double width = s.width - left - text_width(std::to_string(n), FontRole::text, s.tick_size) / 2 - 2;
  const double top = measure.legend({0, 0}, width, legend, true) + 3 + (o.preview ? measure.preview_height() + 2 : 0);
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3,
               gap = o.preview ? 10 : 7;
  const double total = s.height > 0 ? std::max(s.height - top - bottom, 40.0) : s.width * 0.62;
  const double life_h = o.occupancy ? (total - gap) * 0.72 : total;

  FigureBuilder b(s.width, top + total + bottom, s);
  b.legend({left, 0}, width, legend);
  const Box life{left, top, width, life_h};
  Image image = lifeline_image(run, o.layer, o.kv_head, max_side, s.dark);
  image.box = life;
  b.add(std::move(image));
  b.frame(life);
  draw_changes(b, life, run);
  b.figure().panels.push_back({"lifelines", life, 0, 0});
  b.y_ticks(life, position_ticks(life.y, life.h, n, s.tick_size * 3, true));
  b.label("Token", {s.label_size / 2 + 1, life.centre().y}, Anchor::middle, 90);
  Box lowest = life;
  if (o.occupancy) {
    lowest = {left, life.bottom() + gap, width, total - gap - life_h};
    draw_occupancy(b, lowest, run, o);
  }
  b.x_ticks(lowest, position_ticks(lowest.x, lowest.w, n, s.tick_size * 6, false));
  b.label("Query position", {lowest.centre().x, lowest.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 +
                                                    s.label_size * 0.6});
  if (o.preview) {
    b.preview_frame(life);
    if (o.occupancy) b.preview_frame(lowest);
    b.preview_badge(left + width + 2, top - 4);
  }
  b.figure().title =
      "Cache of layer " + std::to_string(o.layer) + ", KV head " + std::to_string(o.kv_head) + " over time";
  std::string caption = b.figure().title + ": each token from its birth to its eviction" +
                        (o.occupancy ? ", and how many tokens are in the cache. " : ". ") + describe_run(run) +
                        describe_preview(o.preview);
  return {std::move(b.figure()), tidy(run, o), std::move(caption)};
}

}  // namespace kvscope::views
