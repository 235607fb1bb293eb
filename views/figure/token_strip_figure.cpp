#include "views/figure/token_strip_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"
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
  if (o.first >= 0) {
    if (o.first > q) {
      throw Error({ExitCode::bad_input, "", "first", std::to_string(o.first),
                   "a token not after query " + std::to_string(q), ""});
    }
    return {o.first, std::min(o.first + count, q + 1), false};
  }
  const RetentionGeometry g = run.geometry();
  const int end = q - g.window + 1;
  if (o.evictable_only && end > g.n_sink) return {std::max(g.n_sink, end - count), end, true};
  return {std::max(0, q + 1 - count), q + 1, false};  // nothing was evictable yet: whatever there is
}

struct Rows {
  int n;
  bool heads;  // KV heads of one layer instead of layers
  ColourScale scale;
};

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
  l.top = 2 + s.tick_size * 1.35 + (o.preview ? s.tick_size * 1.5 + 4 : 0);
  l.band_w = s.width - l.left - (bar_w > 0 ? bar_w + 9 : 0) - 4;
  const int wanted = static_cast<int>(std::ceil(n * kReadableColumn / l.band_w));
  l.bands = std::clamp(o.bands > 0 ? o.bands : o.labels ? std::min(wanted, 6) : 1, 1, std::max(n, 1));
  l.per_band = (n + l.bands - 1) / l.bands;
  const double column = l.band_w / l.per_band;
  l.label_size = o.labels ? std::min(s.tick_size, column * 0.9) : 0;
  if (l.label_size < kSmallestLabel) l.label_size = 0;
  l.label_h = l.label_size > 0 ? widest_label(run, range, l.label_size) + (o.preview ? 6 : 4) : 2;
  l.band_gap = s.tick_size * 1.35 + 5;
  l.bottom = legend_h > 0 ? legend_h + 4 : 2;
  const double row = std::clamp(s.width * 0.28 / rows.n, 2.4, s.tick_size * 1.6);
  l.strip_h = row * rows.n;
  if (s.height > 0) {
    const double free = s.height - l.top - l.bottom - (l.bands - 1) * l.band_gap - l.bands * l.label_h;
    l.strip_h = std::max(free / l.bands, 1.5 * rows.n);
  }
  return l;
}

TokenState state_at(const RunRecord& run, int layer, int head, int t, std::int32_t q, const RetentionGeometry& g) {
  return token_state(q, t, lifetime_of(run, layer, head, t), g.n_sink, g.window);
}

std::vector<Colour> band_pixels(const RunRecord& run, const TokenStripOptions& o, const Rows& rows, int begin, int end,
                                std::int32_t q, bool dark) {
  const RetentionGeometry g = run.geometry();
  std::vector<Colour> pixels;
  for (int r = 0; r < rows.n; ++r) {
    for (int t = begin; t < end; ++t) {
      pixels.push_back(rows.heads ? state_colour(state_at(run, o.layer, r, t, q, g), dark)
                                  : rows.scale(kept_heads(run, r, t, q)));
    }
  }
  return pixels;
}

void draw_band(FigureBuilder& b, const RunRecord& run, const TokenStripOptions& o, const Rows& rows, const Layout& l,
               int index, const Range& range, std::int32_t q) {
  const FigureStyle& s = b.style();
  const int begin = range.begin + index * l.per_band, end = std::min(begin + l.per_band, range.end);
  const double column = l.band_w / l.per_band;
  const Box box{l.left, l.top + index * (l.band_height() + l.band_gap), column * (end - begin), l.strip_h};
  b.heat_map(index == 0 ? "strip" : "strip." + std::to_string(index), box, end - begin, rows.n,
             band_pixels(run, o, rows, begin, end, q, s.dark));
  if (o.preview) b.preview_frame(box);

  std::vector<Tick> y;
  const double row = box.h / rows.n;
  const int stride = tick_stride(rows.n, row, s.tick_size * 1.2);
  for (int r = 0; r < rows.n; r += stride) y.push_back({box.y + (r + 0.5) * row, std::to_string(r)});
  b.y_ticks(box, y);
  b.label(rows.heads ? "KV head" : "Layer", {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);

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
           {box.x + (t - begin + 0.5) * column, box.bottom() + (o.preview ? 4.5 : 2.5)}, l.label_size, s.ink,
           Anchor::end, Baseline::middle, 90, FontRole::mono);
  }
}

FigureData tidy(const RunRecord& run, const TokenStripOptions& o, const Rows& rows, const Range& range,
                std::int32_t q) {
  std::vector<std::int64_t> position, id, layer, head, kept;
  std::vector<std::string> token;
  for (int r = 0; r < rows.n; ++r) {
    for (int t = range.begin; t < range.end; ++t) {
      position.push_back(t);
      id.push_back(run.ids[t]);
      token.push_back(token_label(run.pieces[t]));
      layer.push_back(rows.heads ? o.layer : r);
      head.push_back(r);
      kept.push_back(rows.heads ? visible(q, t, lifetime_of(run, o.layer, r, t)) : kept_heads(run, r, t, q));
    }
  }
  FigureData data{{{"position", position}, {"token_id", id}, {"token", token}, {"layer", layer}}};
  if (rows.heads) data.columns.push_back({"kv_head", head});
  data.columns.push_back({rows.heads ? "kept" : "kept_heads", kept});
  return data;
}

/// The states that occur, in the order of a token's life.
std::vector<LegendEntry> state_legend(const RunRecord& run, int layer, const Range& range, std::int32_t q, bool dark) {
  const RetentionGeometry g = run.geometry();
  std::vector<LegendEntry> entries;
  for (TokenState state : {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted}) {
    bool present = false;
    for (int h = 0; h < run.evict_at.n_kv_heads() && !present; ++h) {
      for (int t = range.begin; t < range.end && !present; ++t) present = state_at(run, layer, h, t, q, g) == state;
    }
    if (present)
      entries.push_back({LegendEntry::Mark::swatch, std::string(state_name(state)), state_colour(state, dark)});
  }
  return entries;
}

std::string describe(const RunRecord& run, const TokenStripOptions& o, const Range& range, std::int32_t q) {
  const int n_heads = run.evict_at.n_kv_heads();
  std::string text = o.layer >= 0
                         ? "State of each token in the cache of layer " + std::to_string(o.layer) + "'s KV heads"
                         : "KV heads (of " + std::to_string(n_heads) + ") that retain each token, by layer";
  text += ", at query position " + std::to_string(q) + "; tokens " + std::to_string(range.begin) + "–" +
          std::to_string(range.end - 1);
  text += range.evictable ? ", all of them evictable (behind the sinks, before the window). " : ". ";
  return text + describe_run(run) + describe_preview(o.preview);
}

}  // namespace

int kept_heads(const RunRecord& run, int layer, std::int32_t t, std::int32_t q) {
  int n = 0;
  for (int h = 0; h < run.evict_at.n_kv_heads(); ++h) n += visible(q, t, lifetime_of(run, layer, h, t));
  return n;
}

BuiltFigure token_strip_figure(const RunRecord& run, const TokenStripOptions& o, const FigureStyle& style) {
  const std::int32_t q = resolve_query(run, o.q);
  const int n_layers = run.evict_at.n_layers(), n_heads = run.evict_at.n_kv_heads();
  if (o.layer >= n_layers) {
    throw Error(
        {ExitCode::bad_input, "", "layer", std::to_string(o.layer), "0 to " + std::to_string(n_layers - 1), ""});
  }
  const Range range = shown_tokens(run, o, q);
  const Rows rows{o.layer >= 0 ? n_heads : n_layers,
                  o.layer >= 0,
                  {o.colormap, 0, static_cast<double>(n_heads), n_heads + 1,
                   "KV heads retaining (of " + std::to_string(n_heads) + ")"}};
  FigureBuilder measure(style.width, 0, style);
  const auto legend = rows.heads ? state_legend(run, o.layer, range, q, style.dark) : std::vector<LegendEntry>{};
  const double bar_w = rows.heads ? 0 : measure.colour_bar_width(rows.scale);
  const double legend_h = rows.heads ? measure.legend({0, 0}, style.width - 40, legend, true) : 0;
  const Layout l = lay_out(run, range, rows, o, style, bar_w, legend_h);

  const double bands_h = l.bands * l.band_height() + (l.bands - 1) * l.band_gap;
  FigureBuilder b(style.width, l.top + bands_h + l.bottom, style);
  for (int i = 0; i < l.bands; ++i) draw_band(b, run, o, rows, l, i, range, q);
  if (o.preview) b.preview_badge(l.left + l.band_w + 1, style.tick_size * 1.5 + 1);
  if (rows.heads) {
    b.legend({l.left, l.top + bands_h + 4}, style.width - l.left, legend);
  } else {
    const double bar_h = std::min(bands_h - l.label_h, 110.0);
    b.colour_bar({l.left + l.band_w + 9, l.top + std::max(0.0, (l.strip_h - bar_h) * 0.5) * (l.bands == 1), 0, bar_h},
                 rows.scale);
  }
  b.figure().title = rows.heads ? "Tokens in the cache, by KV head" : "KV heads retaining each token";
  return {std::move(b.figure()), tidy(run, o, rows, range, q), describe(run, o, range, q)};
}

}  // namespace kvscope::views
