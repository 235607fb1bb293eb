#include "views/figure/unseen_tokens_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kLeastBar = 2;         // points
constexpr double kHeightOfBars = 0.42;  // of the figure's width, where nothing else says
constexpr double kBeside = 36,
                 kLeastMissingMap = 7;  // sizes of the letters: a figure that has the map beside the bars; its height

[[noreturn]] void refuse_wish(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "unseen_tokens", found, expected, ""});
}

/// With what follows from the run, which a recipe does not have.
std::shared_ptr<const UnseenAttention> of_run(const RunRecord& run, std::shared_ptr<const UnseenAttention> unseen) {
  if (!unseen) refuse_wish("no attention of a query", "a recipe that an export has written");
  if (unseen->n_layers != run.evict_at.n_layers() || unseen->n_kv_heads != run.evict_at.n_kv_heads() ||
      unseen->query >= run.n_tokens())
    refuse_wish("attention of another run", "layers, heads and tokens of the run");
  if (unseen->heads_without.empty()) {
    auto counted = std::make_shared<UnseenAttention>(*unseen);
    count_heads_without(run, *counted);
    for (std::size_t t = 0; t < counted->held.size(); ++t) {
      const std::int32_t without = counted->heads_without[t];
      if ((counted->evicted[t] > 0 && without == 0) || (counted->held[t] > 0 && without == counted->n_heads))
        refuse_wish("token " + std::to_string(t) + " evicted by other heads", "the run that was exported");
    }
    unseen = std::move(counted);
  }
  if (unseen->n_heads == 0) refuse_wish("no head in which a policy decides", "a head of a layer without a window");
  return unseen;
}

struct WishBars {
  Box box;
  SpanCells cells;
  std::vector<double> held, evicted;  // of each cell
  double hi = 1;
  double x(double token) const { return box.x + (token - cells.span.begin) / cells.span.size() * box.w; }
  double y(double v) const { return box.bottom() - std::clamp(v / hi, 0.0, 1.0) * box.h; }
};

WishBars wish_bars(const RunRecord& run, const UnseenTokensOptions& o, const Box& box) {
  WishBars bars{box, unseen_bars(o, box.w), {}, {}};
  const int n_sinks = std::max(1, run.geometry().n_sink), window_begin = o.unseen->query - run.geometry().window + 1;
  double greatest = 0, greatest_beyond = 0;
  for (int cell = 0; cell < bars.cells.cells; ++cell) {
    double held = 0, evicted = 0, beyond = 0;
    const TokenSpan tokens = bars.cells.tokens(cell);
    for (std::int32_t t = tokens.begin; t < tokens.end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      held += o.unseen->held[i], evicted += o.unseen->evicted[i];
      if (t >= n_sinks && t < window_begin) beyond += o.unseen->held[i] + o.unseen->evicted[i];
    }
    bars.held.push_back(held), bars.evicted.push_back(evicted);
    greatest = std::max(greatest, held + evicted), greatest_beyond = std::max(greatest_beyond, beyond);
  }
  const double hi = o.whole || greatest_beyond <= 0 ? greatest : greatest_beyond;
  if (hi > 0) bars.hi = hi * 1.05;
  return bars;
}

Colour held_colour(bool dark) { return state_colour(TokenState::kept, dark); }
Colour unseen_colour(bool dark) { return verdict_colour(Verdict::missed, dark); }

void draw_wish_axes(FigureBuilder& b, const WishBars& bars) {
  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  const TokenSpan tokens = bars.cells.span;
  const int n_x = std::max(2, static_cast<int>(bars.box.w / (s.tick_size * 6)));
  for (const double v : nice_values(tokens.begin, tokens.end - 1, n_x, true))
    x.push_back({bars.x(v + 0.5), std::to_string(std::lround(v))});
  for (const double v : nice_values(0, bars.hi, std::max(2, static_cast<int>(bars.box.h / (s.tick_size * 2.5))))) {
    b.line({bars.box.x, bars.y(v)}, {bars.box.right(), bars.y(v)}, mix(s.paper, s.rule, 0.25), s.rule_width * 0.8);
    y.push_back({bars.y(v), format_number(v)});
  }
  b.x_ticks(bars.box, x);
  b.y_ticks(bars.box, y);
  const double below = bars.box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  b.label("Token", {bars.box.centre().x, below});
  if (text_width("Attention", FontRole::text, s.label_size) <= bars.box.h)
    b.label("Attention", {s.label_size / 2 + 1, bars.box.centre().y}, Anchor::middle, 90);
}

/// A bar that the axis ends in has a gap below its top; the greatest of them has its value.
void mark_cut_bars(FigureBuilder& b, const WishBars& bars, double width) {
  const FigureStyle& s = b.style();
  int tallest = -1;
  double most = bars.hi;
  for (int cell = 0; cell < bars.cells.cells; ++cell) {
    const auto i = static_cast<std::size_t>(cell);
    const double sum = bars.held[i] + bars.evicted[i];
    if (sum <= bars.hi) continue;
    const double x = bars.box.x + cell * bars.box.w / bars.cells.cells;
    b.line({x - 0.5, bars.box.y + 4}, {x + width + 0.5, bars.box.y + 3}, s.paper, 1.4);
    if (sum > most) most = sum, tallest = cell;
  }
  if (tallest < 0) return;
  const double x = bars.box.x + tallest * bars.box.w / bars.cells.cells;
  const bool at_left = x > bars.box.centre().x;
  b.text(format_number(most, 2), {at_left ? x - 2 : x + width + 2, bars.box.y + 2}, s.tick_size, s.muted,
         at_left ? Anchor::end : Anchor::start, Baseline::top);
}

void draw_wish_bars(FigureBuilder& b, const WishBars& bars) {
  const FigureStyle& s = b.style();
  const double pitch = bars.box.w / bars.cells.cells, width = pitch >= 4 ? pitch - 1 : pitch * 0.85;
  const Colour evicted = unseen_colour(s.dark);
  for (int cell = 0; cell < bars.cells.cells; ++cell) {
    const auto i = static_cast<std::size_t>(cell);
    const double x = bars.box.x + cell * pitch, middle = bars.y(bars.held[i]),
                 top = bars.y(bars.held[i] + bars.evicted[i]);
    if (middle < bars.box.bottom()) b.add(FillBox{{x, middle, width, bars.box.bottom() - middle}, held_colour(s.dark)});
    if (top >= middle) continue;
    b.add(FillBox{{x, top, width, middle - top}, mix(s.paper, evicted, 0.35)});
    b.add(Hatch{{x, top, width, middle - top}, evicted, 2.5, 0.7});
  }
  mark_cut_bars(b, bars, width);
  b.frame(bars.box);
  b.figure().panels.push_back({"bars", bars.box, 0, 0});
}

ColourScale missing_scale(const UnseenAttention& unseen) {
  double hi = 0;
  for (const float v : unseen.missing)
    if (!std::isnan(v)) hi = std::max<double>(hi, v);
  return {Colormap::viridis, 0, hi > 0 ? hi : 1, 0, "Missing attention"};
}

void draw_missing_map(FigureBuilder& b, const UnseenAttention& unseen, const Box& room) {
  const FigureStyle& s = b.style();
  const ColourScale scale = missing_scale(unseen);
  const double left = s.label_size + 4 + text_width("00", FontRole::text, s.tick_size) + FigureBuilder::kTickLength + 3,
               below = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const double height = std::max(10.0, room.h - below), bar = b.colour_bar_width(scale, height);
  const Box box{room.x + left, room.y, std::max(10.0, room.w - left - bar - 11), height};
  HeadSet shown;
  if (unseen.scope.layer >= 0 && unseen.scope.kv_head >= 0) shown.add({unseen.scope.layer, unseen.scope.kv_head});
  draw_head_map(b, "missing", box, {unseen.n_layers, unseen.n_kv_heads, unseen.missing}, scale,
                {.values = false, .marked = shown.empty() ? nullptr : &shown});
  if (text_width("Layer", FontRole::text, s.label_size) <= box.h)
    b.label("Layer", {room.x + s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
  b.colour_bar({box.right() + 5, box.y, 6, box.h}, scale);
}

std::vector<LegendEntry> wish_legend(bool dark) {
  return {{LegendEntry::Mark::swatch, "in the cache", held_colour(dark)},
          {LegendEntry::Mark::swatch, "evicted (hatched)", unseen_colour(dark)}};
}

/// The bars, and the map with its axes beside them, or below where the figure is narrow.
struct WishLayout {
  Box bars, map;
  double height = 0;
  bool has_legend = true, has_map = true;
};

WishLayout wish_layout(const UnseenAttention& unseen, bool preview, const FigureStyle& s) {
  WishLayout l;
  const double left =
      s.label_size + 4 + text_width("0.0000", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  const double axis = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const bool beside = s.width >= kBeside * s.label_size;
  const double map_width = beside ? std::clamp(s.width * 0.34, 13 * s.label_size, 24 * s.label_size) : s.width;
  const double width = std::max(
      20.0, s.width - left - (beside ? map_width + s.label_size : 0) - text_width("00", FontRole::text, s.tick_size));
  FigureBuilder measure(s.width, 0, s);
  const double of_legend = measure.legend({0, 0}, width, wish_legend(s.dark), true);
  l.has_legend = s.height <= 0 || of_legend < s.height / 4;
  const double top = (l.has_legend ? of_legend + 3 : 2) + (preview ? measure.preview_height() + 2 : 0);
  const double least = kLeastMissingMap * s.label_size,
               below = std::clamp(4.0 * unseen.n_layers, least, 2.5 * least) + axis;  // a map below, and its axis
  l.has_map = s.height <= 0 || (beside ? s.height - top - axis >= least : s.height - top - axis >= 2 * below);
  const double under = l.has_map && !beside ? below + 4 : 0;
  l.height = s.height > 0 ? s.height : top + s.width * kHeightOfBars + axis + under;
  l.bars = {left, top, width, std::max(4.0, l.height - top - axis - under)};
  l.map = beside ? Box{s.width - map_width, top, map_width, l.height - top} : Box{0, l.height - below, s.width, below};
  return l;
}

FigureData unseen_data(const UnseenAttention& unseen, TokenSpan tokens) {
  const double none = std::nan("");
  std::vector<std::string> mark;
  std::vector<double> token, held, evicted, without, layer, kv_head, missing;
  const auto add = [&](const char* of, std::initializer_list<double> values) {
    mark.emplace_back(of);
    auto value = values.begin();
    for (auto* column : {&token, &held, &evicted, &without, &layer, &kv_head, &missing}) column->push_back(*value++);
  };
  for (std::int32_t t = tokens.begin; t < tokens.end; ++t) {
    const auto i = static_cast<std::size_t>(t);
    add("token", {static_cast<double>(t), unseen.held[i], unseen.evicted[i],
                  static_cast<double>(unseen.heads_without[i]), none, none, none});
  }
  for (int of = 0; of < unseen.n_layers * unseen.n_kv_heads; ++of)
    add("head", {none, none, none, none, static_cast<double>(of / unseen.n_kv_heads),
                 static_cast<double>(of % unseen.n_kv_heads), unseen.missing[static_cast<std::size_t>(of)]});
  return {{{"mark", mark},
           {"token", token},
           {"held", held},
           {"evicted", evicted},
           {"heads_without", without},
           {"layer", layer},
           {"kv_head", kv_head},
           {"missing", missing}}};
}

std::string describe_unseen(const RunRecord& run, const UnseenTokensOptions& o, const WishBars& bars) {
  const int most = (bars.cells.span.size() + bars.cells.cells - 1) / bars.cells.cells;
  const HeadMap map{o.unseen->n_layers, o.unseen->n_kv_heads, o.unseen->missing};
  return "Attention that query " + std::to_string(o.unseen->query) +
         " would give each token under a full cache (softmax over all tokens up to it, mean over the query heads of a KV "
         "head), " +
         unseen_heads_text(*o.unseen) + ". Hatched: the part in heads that have evicted the token. " +
         (most > 1 ? "A bar is the sum of up to " + std::to_string(most) + " tokens. " : "") +
         (o.whole ? "" : "Bars taller than the greatest outside sinks and window are cut. ") +
         unseen_sentence(run, *o.unseen) +
         " Map: of each head, the share of the query's attention on tokens that it has evicted." +
         std::string(hatch_note(std::span(&map, 1))) + " " + describe_run(run) + describe_preview(o.preview);
}

}  // namespace

TokenSpan unseen_tokens_drawn(const UnseenTokensOptions& o) {
  const std::int32_t n = o.unseen->query + 1;
  if (o.count <= 0 || o.first < 0 || o.first >= n) return {0, n};
  return {o.first, o.first + std::min(o.count, n - o.first)};
}

SpanCells unseen_bars(const UnseenTokensOptions& o, double width) {
  return {unseen_tokens_drawn(o), static_cast<int>(width / kLeastBar)};
}

std::string unseen_heads_text(const UnseenAttention& unseen) {
  if (unseen.scope.layer >= 0 && unseen.scope.kv_head >= 0)
    return "L" + std::to_string(unseen.scope.layer) + " H" + std::to_string(unseen.scope.kv_head);
  const std::string mean = "mean over " + std::to_string(unseen.n_heads) + (unseen.n_heads == 1 ? " head" : " heads");
  return unseen.scope.layer >= 0 ? "layer " + std::to_string(unseen.scope.layer) + ", " + mean : mean;
}

std::string share_words(double share) {
  const double percent = 100 * share;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  return (percent >= 10  ? fixed_text(percent, 0)
          : percent >= 1 ? fixed_text(percent, 1)
                         : number_text(percent, 2)) +
         " %";
}

std::string token_words(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  const std::string number = "token " + std::to_string(t);
  return i < run.pieces.size() ? "\"" + token_label(run.pieces[i], 14) + "\" (" + number + ")" : number;
}

std::string unseen_sentence(const RunRecord& run, const UnseenAttention& unseen) {
  const std::string begin = "Query " + std::to_string(unseen.query) + ", " + unseen_heads_text(unseen) + ": ";
  const int n = unseen.n_evicted();
  if (n == 0) return begin + "no token is evicted, so the query sees all " + std::to_string(unseen.query + 1) + ".";
  const std::string tokens = std::to_string(n) + " evicted " + (n == 1 ? "token" : "tokens");
  std::string text = begin + share_words(unseen.share()) + " of its attention would go to " +
                     (unseen.n_heads == 1 ? tokens : tokens + " (evicted in at least one head)");
  if (const auto most = most_missing(unseen, 1); !most.empty())
    text += "; most to " + token_words(run, most[0]) + ": " +
            share_words(unseen.evicted[static_cast<std::size_t>(most[0])]);
  return text + ".";
}

BuiltFigure unseen_tokens_figure(const RunRecord& run, const UnseenTokensOptions& options, const FigureStyle& s) {
  UnseenTokensOptions o = options;
  o.unseen = of_run(run, o.unseen);
  const WishLayout l = wish_layout(*o.unseen, o.preview, s);
  FigureBuilder b(s.width, l.height, s);
  if (l.has_legend) b.legend({l.bars.x, 0}, l.bars.w, wish_legend(s.dark));
  const WishBars bars = wish_bars(run, o, l.bars);
  draw_wish_axes(b, bars);
  draw_wish_bars(b, bars);
  if (l.has_map) draw_missing_map(b, *o.unseen, l.map);
  if (o.preview) {
    b.preview_frame(bars.box);
    b.preview_badge(bars.box.right() + 2, bars.box.y - 4);
  }
  b.figure().title = "What a query could not see";
  return {std::move(b.figure()), unseen_data(*o.unseen, bars.cells.span), describe_unseen(run, o, bars)};
}

}  // namespace kvscope::views
