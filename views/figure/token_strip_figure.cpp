#include "views/figure/token_strip_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/layer_strip_image.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_facts.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMaxLabel = 12;    // code points
constexpr double kReadableColumn = 5.8;  // pt a column needs for a label of 5.3 pt
constexpr double kSmallestLabel = 3;     // pt; below it a label is dirt

struct Range {
  int begin, end;  // tokens
  bool evictable;
};

Range shown_tokens(const RunRecord& run, const TokenStripOptions& o, std::int32_t q) {
  const int count = std::max(o.count, 1);
  if (o.first > q)
    throw Error(
        {ExitCode::bad_input, "", "first", std::to_string(o.first), "a token up to query " + std::to_string(q), ""});
  if (o.first >= 0) return {o.first, std::min(o.first + count, q + 1), false};
  const RetentionGeometry g = run.geometry();
  const int end = q - g.window + 1;
  if (o.evictable_only && end > g.n_sink) return {std::max(g.n_sink, end - count), end, true};
  return {std::max(0, q + 1 - count), q + 1, false};  // nothing was evictable yet: whatever there is
}

struct Row {
  HeadAtQuery at;  // of a whole layer: its first head
  ColourMode colour;
  std::string label;  // of the tick
  int end;            // tokens from here on are not this run's
};

struct Rows {
  std::vector<Row> rows;
  bool heads;  // KV heads of one layer instead of layers
  bool with_b;
  ColourScale scale;
  int n() const { return static_cast<int>(rows.size()); }
  bool any(ColourMode colour) const { return std::ranges::count(rows, colour, &Row::colour) > 0; }
  bool scaled() const { return any(ColourMode::score) || any(ColourMode::kept_heads); }
};

void check(const RunRecord& run, const TokenStripOptions& o, const RunRecord* b) {
  const auto refuse = [](const char* key, const std::string& found, const std::string& expected) {
    throw Error({ExitCode::bad_input, "", key, found, expected, ""});
  };
  const auto within = [&](const char* key, int value, int n) {
    if (value >= n) refuse(key, std::to_string(value), "0 to " + std::to_string(n - 1));
  };
  within("layer", o.layer, run.evict_at.n_layers());
  within("kv_head", o.kv_head, run.evict_at.n_kv_heads());
  if (o.layer < 0 && (o.kv_head >= 0 || o.colour != ColourMode::state)) refuse("layer", "missing", "the heads' layer");
  if (!o.with_b) return;
  if (o.kv_head < 0) refuse("kv_head", "missing", "the head to compare");
  if (b == nullptr) refuse("with_b", "one run", "exactly two");
  if (o.layer >= b->evict_at.n_layers() || o.kv_head >= b->evict_at.n_kv_heads())
    refuse("with_b", "runs of different shapes", "the same layers and heads");
}

Rows rows_of(const RunRecord& run, const TokenStripOptions& o, std::int32_t q, const RunRecord* b) {
  const int n_layers = run.evict_at.n_layers(), n_heads = run.evict_at.n_kv_heads(), all = run.n_tokens();
  Rows rows{{}, o.layer >= 0, o.with_b, {o.colormap, 0, static_cast<double>(n_heads), n_heads + 1, ""}};
  rows.scale.label = "KV heads keeping (of " + std::to_string(n_heads) + ")";
  if (!rows.heads) {
    for (int l = 0; l < n_layers; ++l)
      rows.rows.push_back({HeadAtQuery(run, l, 0, q), ColourMode::kept_heads, std::to_string(l), all});
    return rows;
  }
  for (int h = std::max(o.kv_head, 0); h < (o.kv_head < 0 ? n_heads : o.kv_head + 1); ++h)
    rows.rows.push_back({HeadAtQuery(run, o.layer, h, q), o.colour, o.with_b ? "A" : std::to_string(h), all});
  if (o.colour == ColourMode::score) {
    rows.scale = {o.colormap, INFINITY, -INFINITY, 0, "Retention score"};
    for (const Row& row : rows.rows) {
      const ScoreRange range = score_range(run, o.layer, row.at.kv_head);
      rows.scale.lo = std::min<double>(rows.scale.lo, range.lo),
      rows.scale.hi = std::max<double>(rows.scale.hi, range.hi);
    }
  }
  if (o.with_b) {
    rows.rows.push_back(
        {HeadAtQuery(*b, o.layer, o.kv_head, resolve_query(*b, q)), ColourMode::state, "B", common_prefix(run, *b)});
  }
  return rows;
}

struct Layout {
  double left, top, band_w, strip_h, label_h, band_gap, bottom;
  int bands, per_band;
  double label_size;
  double band_height() const { return strip_h + label_h; }
};

double widest_label(const RunRecord& run, const Range& range, double size) {
  double widest = 0;
  for (int t = range.begin; t < range.end; ++t) {
    widest = std::max(widest, text_width(token_label(run.pieces[t], kMaxLabel), FontRole::mono, size));
  }
  return widest;
}

Layout lay_out(const RunRecord& run, const Range& range, const Rows& rows, const TokenStripOptions& o,
               const FigureStyle& s, double bar_w, double legend_h) {
  Layout l{};
  const int n = range.end - range.begin;
  l.left = s.label_size + 4 + text_width("00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  const bool preview = o.preview || o.preview_b;
  l.top = 2 + s.label_size * 1.3 + s.tick_size * 1.35 + (preview ? s.tick_size * 1.5 + 4 : 0);
  l.band_w = s.width - l.left - (bar_w > 0 ? bar_w + 9 : 0) - 4;
  const int wanted = static_cast<int>(std::ceil(n * kReadableColumn / l.band_w));
  l.bands = std::clamp(o.bands > 0 ? o.bands
                       : o.labels  ? std::min(wanted, o.kv_head >= 0 ? 12 : 6)
                                   : 1,
                       1, std::max(n, 1));
  l.per_band = (n + l.bands - 1) / l.bands;
  const double column = l.band_w / l.per_band;
  l.label_size = o.labels ? std::min(s.tick_size, column * 0.9) : 0;
  if (l.label_size < kSmallestLabel) l.label_size = 0;
  l.label_h = l.label_size > 0 ? widest_label(run, range, l.label_size) + (preview ? 6 : 4) : 2;
  l.band_gap = s.tick_size * 1.35 + 5;
  l.bottom = legend_h > 0 ? legend_h + 4 : 2;
  const double row = std::clamp(s.width * 0.28 / rows.n(), 2.4, s.tick_size * (o.kv_head >= 0 ? 2.4 : 1.6));
  l.strip_h = row * rows.n();
  if (s.height > 0) {
    const double free = s.height - l.top - l.bottom - (l.bands - 1) * l.band_gap - l.bands * l.label_h;
    l.strip_h = std::max(free / l.bands, 1.5 * rows.n());
  }
  return l;
}

Colour cell_colour(const Row& row, int t, const ColourScale& scale, bool dark) {
  const HeadAtQuery& at = row.at;
  if (t >= row.end) return {0, 0, 0, 0};
  switch (row.colour) {
    case ColourMode::state:
      return state_colour(at.state(t), dark);
    case ColourMode::score:
      return scale(score_at(*at.run, at.layer, at.kv_head, t));
    case ColourMode::kept_heads:
      return at.chosen(t) ? scale(kept_heads(*at.run, at.layer, t, at.q)) : Colour{0, 0, 0, 0};
    case ColourMode::oracle:
      break;
  }
  return verdict_colour(at.verdict(t), dark);
}

double cell_value(const Row& row, std::int32_t t) {
  const HeadAtQuery& at = row.at;
  if (row.colour == ColourMode::score) return score_at(*at.run, at.layer, at.kv_head, t);
  return at.chosen(t) ? kept_heads(*at.run, at.layer, t, at.q) : NAN;
}

/// Of several tokens: the colour of their mean value, or the mean of their colours where these are no values.
Colour mean_colour(const Row& row, TokenSpan tokens, const ColourScale& scale, bool dark) {
  double sum[3] = {0, 0, 0};
  int n = 0;
  const bool valued = row.colour == ColourMode::score || row.colour == ColourMode::kept_heads;
  for (std::int32_t t = tokens.begin; t < std::min(tokens.end, row.end); ++t) {
    if (valued) {
      const double value = cell_value(row, t);
      if (!std::isnan(value)) sum[0] += value, ++n;
      continue;
    }
    const Colour c = cell_colour(row, t, scale, dark);
    if (c.a != 0) sum[0] += c.r, sum[1] += c.g, sum[2] += c.b, ++n;
  }
  if (n == 0) return {0, 0, 0, 0};
  if (valued) {
    ColourScale smooth = scale;
    smooth.steps = 0;
    return smooth(sum[0] / n);
  }
  const auto mean = [&](int i) { return static_cast<std::uint8_t>(std::lround(sum[i] / n)); };
  return {mean(0), mean(1), mean(2), 255};
}

std::vector<Colour> band_pixels(const RunRecord& run, const Rows& rows, const SpanCells& cells,
                                const TokenStripOptions& o, bool dark) {
  if (!rows.heads && cells.cells < cells.span.size())
    return layer_strip_image(layer_strip(run, rows.rows[0].at.q, cells), run.evict_at.n_kv_heads(), o.colormap).pixels;
  std::vector<Colour> pixels;
  for (const Row& row : rows.rows) {
    for (int c = 0; c < cells.cells; ++c) {
      const TokenSpan tokens = cells.tokens(c);
      pixels.push_back(tokens.size() == 1 ? cell_colour(row, tokens.begin, rows.scale, dark)
                                          : mean_colour(row, tokens, rows.scale, dark));
    }
  }
  return pixels;
}

void draw_band(FigureBuilder& b, const RunRecord& run, const TokenStripOptions& o, const Rows& rows, const Layout& l,
               int index, const Range& range) {
  const FigureStyle& s = b.style();
  const int begin = range.begin + index * l.per_band, end = std::min(begin + l.per_band, range.end);
  const double column = l.band_w / l.per_band;
  const Box box{l.left, l.top + index * (l.band_height() + l.band_gap), column * (end - begin), l.strip_h};
  const SpanCells cells({begin, end}, kMaxStripColumns);
  b.heat_map(index == 0 ? "strip" : "strip." + std::to_string(index), box, cells.cells, rows.n(),
             band_pixels(run, rows, cells, o, s.dark));
  const double row = box.h / rows.n();
  if (o.preview) b.preview_frame(box);
  if (o.preview_b && !o.preview) b.preview_frame({box.x, box.bottom() - row, box.w, row});

  std::vector<Tick> y;
  const int stride = tick_stride(rows.n(), row, s.tick_size * 1.2);
  for (int r = 0; r < rows.n(); r += stride) y.push_back({box.y + (r + 0.5) * row, rows.rows[r].label});
  b.y_ticks(box, y);
  b.label(rows.with_b  ? "Run"
          : rows.heads ? "KV head"
                       : "Layer",
          {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);

  if (index == 0) {
    b.label("Token position",
            {box.centre().x, box.y - FigureBuilder::kTickLength - 1.5 - 0.9 * s.tick_size - 0.6 * s.label_size});
  }
  const double position = text_width(std::to_string(range.end), FontRole::text, s.tick_size) + 6;
  const int every = tick_stride(end - begin, column, position);
  for (int t = (begin + every - 1) / every * every; t < end; t += every) {  // positions above, tokens beneath
    const double x = box.x + (t - begin + 0.5) * column;
    b.line({x, box.y}, {x, box.y - FigureBuilder::kTickLength}, s.rule, s.rule_width);
    b.text(std::to_string(t), {x, box.y - FigureBuilder::kTickLength - 1.5}, s.tick_size * 0.9, s.muted,
           Anchor::middle);
  }
  for (int t = begin; t < end && l.label_size > 0; ++t) {
    b.text(token_label(run.pieces[t], kMaxLabel),
           {box.x + (t - begin + 0.5) * column, box.bottom() + (o.preview || o.preview_b ? 4.5 : 2.5)}, l.label_size,
           s.ink, Anchor::end, Baseline::middle, 90, FontRole::mono);
  }
}

/// The verdict as the table has it: a legend may change its words, a file may not.
std::string_view verdict_in_data(Verdict verdict) {
  switch (verdict) {
    case Verdict::kept_rightly:
      return "kept, as the oracle";
    case Verdict::kept_wrongly:
      return "kept, the oracle drops it";
    case Verdict::missed:
      return "missed: the oracle keeps it";
    case Verdict::dropped_rightly:
      return "dropped, as the oracle";
    case Verdict::none:
      break;
  }
  return "no choice";
}

FigureData tidy(const RunRecord& run, const Rows& rows, const Range& range) {
  std::vector<std::int64_t> position, id, layer, head, kept, heads;
  std::vector<std::string> token, name, verdict;
  std::vector<double> score;
  for (const Row& row : rows.rows) {
    const HeadAtQuery& at = row.at;
    for (int t = range.begin; t < std::min(range.end, row.end); ++t) {
      position.push_back(t);
      id.push_back(run.ids[t]);
      token.push_back(token_label(run.pieces[t]));
      name.push_back(row.label);
      layer.push_back(at.layer), head.push_back(at.kv_head);
      kept.push_back(visible(at.q, t, lifetime_of(*at.run, at.layer, at.kv_head, t)));
      heads.push_back(kept_heads(*at.run, at.layer, t, at.q));
      score.push_back(score_at(*at.run, at.layer, at.kv_head, t));
      verdict.emplace_back(verdict_in_data(at.verdict(t)));
    }
  }
  FigureData data{{{"position", position}, {"token_id", id}, {"token", token}}};
  if (rows.with_b) data.columns.push_back({"run", name});
  data.columns.push_back({"layer", layer});
  if (rows.heads) data.columns.push_back({"kv_head", head}), data.columns.push_back({"kept", kept});
  if (rows.any(ColourMode::kept_heads)) data.columns.push_back({"kept_heads", heads});
  if (rows.any(ColourMode::score)) data.columns.push_back({"score", score});
  if (rows.any(ColourMode::oracle)) data.columns.push_back({"oracle", verdict});
  return data;
}

/// The columns of layers, where a column is several tokens.
FigureData tidy_columns(const RunRecord& run, std::int32_t q, const SpanCells& cells) {
  const LayerStrip strip = layer_strip(run, q, cells);
  std::vector<std::int64_t> position, tokens, layer;
  std::vector<double> heads;
  for (int l = 0; l < strip.rows; ++l) {
    for (int c = 0; c < strip.columns; ++c) {
      position.push_back(cells.begin(c)), tokens.push_back(cells.tokens(c).size()), layer.push_back(l);
      heads.push_back(strip.heads[static_cast<std::size_t>(l * strip.columns + c)]);
    }
  }
  return {{{"position", position}, {"tokens", tokens}, {"layer", layer}, {"mean_kept_heads", heads}}};
}

/// The states and verdicts that occur, in the order of a token's life.
std::vector<LegendEntry> legend_of(const Rows& rows, const Range& range, bool dark) {
  std::vector<LegendEntry> entries;
  const auto add = [&](ColourMode colour, auto occurs, std::string_view name, Colour swatch) {
    for (const Row& row : rows.rows) {
      if (row.colour != colour) continue;
      for (int t = range.begin; t < std::min(range.end, row.end); ++t) {
        if (occurs(row.at, t)) return entries.push_back({LegendEntry::Mark::swatch, std::string(name), swatch});
      }
    }
  };
  for (Verdict v : {Verdict::kept_rightly, Verdict::kept_wrongly, Verdict::missed, Verdict::dropped_rightly}) {
    add(
        ColourMode::oracle, [v](const HeadAtQuery& at, int t) { return at.verdict(t) == v; }, verdict_name(v),
        verdict_colour(v, dark));
  }
  for (TokenState s :
       {TokenState::sink, TokenState::window, TokenState::kept, TokenState::unread, TokenState::evicted}) {
    add(
        ColourMode::state, [s](const HeadAtQuery& at, int t) { return at.state(t) == s; }, state_name(s),
        state_colour(s, dark));
  }
  return entries;
}

std::string subject(const RunRecord& run, const TokenStripOptions& o) {
  const std::string of = "KV heads (of " + std::to_string(run.evict_at.n_kv_heads()) + ")";
  if (o.layer < 0) return of + " that keep each token, by layer";
  const std::string layer = "layer " + std::to_string(o.layer);
  const std::string heads = layer + "'s KV head" + (o.kv_head < 0 ? "s" : " " + std::to_string(o.kv_head));
  switch (o.colour) {
    case ColourMode::state:
      return "State of each token in the cache of " + heads;
    case ColourMode::score:
      return "Raw retention score of each token in " + heads + " (2nd to 98th percentile)";
    case ColourMode::kept_heads:
      return of + " of " + layer + " that keep each token";
    case ColourMode::oracle:
      break;
  }
  return "The policy's choice on each token against the future-attention oracle's, in " + heads;
}

/// What is hatched in the mode of heads.
std::string hatched(const Rows& rows, const Range& range) {
  for (const Row& row : rows.rows)
    for (int t = range.begin; t < std::min(range.end, row.end); ++t)
      if (row.at.chosen(t)) return "Hatched: sinks and window, always kept. ";
  return "Hatched: all of these tokens are sinks or in the window, always kept. ";
}

std::string describe(const RunRecord& run, const TokenStripOptions& o, const Range& range, const Rows& rows) {
  std::string text = subject(run, o) + ", at query position " + std::to_string(rows.rows[0].at.q) + "; tokens " +
                     std::to_string(range.begin) + "–" + std::to_string(range.end - 1);
  text += range.evictable ? ", all of them evictable (between the sinks and the window). " : ". ";
  if (rows.any(ColourMode::kept_heads) && !range.evictable) text += hatched(rows, range);
  text += (o.with_b ? "A: " : "") + describe_run(run);
  if (o.with_b)
    text += " B (its state of the same token, hatched where the tokens differ): " + describe_run(*rows.rows[1].at.run);
  return text + describe_preview(o.preview || o.preview_b);
}

}  // namespace

int kept_heads(const RunRecord& run, int layer, std::int32_t t, std::int32_t q) {
  int n = 0;
  for (int h = 0; h < run.evict_at.n_kv_heads(); ++h) n += visible(q, t, lifetime_of(run, layer, h, t));
  return n;
}

BuiltFigure token_strip_figure(const RunRecord& run, const TokenStripOptions& o, const FigureStyle& style,
                               const RunRecord* other) {
  const std::int32_t q = resolve_query(run, o.q);
  check(run, o, other);
  const Range range = shown_tokens(run, o, q);
  const Rows rows = rows_of(run, o, q, other);
  FigureBuilder measure(style.width, 0, style);
  const auto legend = legend_of(rows, range, style.dark);
  const double bar_w = rows.scaled() ? measure.colour_bar_width(rows.scale) : 0;
  const double legend_h = legend.empty() ? 0 : measure.legend({0, 0}, style.width - 40, legend, true);
  const Layout l = lay_out(run, range, rows, o, style, bar_w, legend_h);
  const double bands_h = l.bands * l.band_height() + (l.bands - 1) * l.band_gap;
  FigureBuilder b(style.width, l.top + bands_h + l.bottom, style);
  for (int i = 0; i < l.bands; ++i) draw_band(b, run, o, rows, l, i, range);
  if (o.preview || o.preview_b) b.preview_badge(l.left + l.band_w + 1, style.tick_size * 1.5 + 1);
  if (!legend.empty()) b.legend({l.left, l.top + bands_h + 4}, style.width - l.left, legend);
  if (rows.scaled()) b.colour_bar({l.left + l.band_w + 9, l.top, 0, bands_h - l.label_h}, rows.scale);
  b.figure().title = rows.heads ? "Tokens in the cache, by KV head" : "KV heads keeping each token";
  const SpanCells cells({range.begin, range.end}, kMaxStripColumns * l.bands);
  const int per_column = (l.per_band + kMaxStripColumns - 1) / kMaxStripColumns;
  std::string caption = describe(run, o, range, rows);
  if (per_column > 1) caption += " Each column is the mean of up to " + std::to_string(per_column) + " tokens.";
  const bool means = !rows.heads && per_column > 1;
  return {std::move(b.figure()), means ? tidy_columns(run, q, cells) : tidy(run, rows, range), std::move(caption)};
}

}  // namespace kvscope::views
