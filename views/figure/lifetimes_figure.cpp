#include "views/figure/lifetimes_figure.h"

#include <algorithm>
#include <cmath>

#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/lifetimes_image.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/query_axis.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kLeastLifeBar = 1;           // points: a short life is seen however long the run is
constexpr double kPaperLifeCells = 4;         // to a point
constexpr std::size_t kMostOfLifeToken = 14;  // code points

/// What is drawn, resolved.
struct LifeChart {
  const RunRecord& run;
  const LifetimesOptions& o;
  std::span<const TokenLife> lives;  // of all rows
  double cells_per_point;
  TokenSpan rows, queries;
  Box box{};

  std::span<const TokenLife> shown() const {
    return lives.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
  }
  double pitch() const { return box.h / rows.size(); }
  bool has_bars() const { return pitch() >= kLeastLifePitch; }
  int cells(double points) const { return std::max(1, static_cast<int>(points * cells_per_point)); }
  /// Tokens of a row of cells; 1 or less: each has its own.
  double tokens_per_row() const { return static_cast<double>(rows.size()) / cells(box.h); }
  double x(std::int32_t q) const { return box.x + static_cast<double>(q - queries.begin) / queries.size() * box.w; }
  double y(int row) const { return box.y + (row - rows.begin + 0.5) * pitch(); }
};

const char* life_order_words(LifeOrder order) {
  return order == LifeOrder::cost   ? "highest cost first"
         : order == LifeOrder::life ? "longest life first"
                                    : "by position";
}

std::string life_cells_note(const LifeChart& chart) {
  if (chart.has_bars() || chart.tokens_per_row() <= 1) return "";
  return "each row: most common state of " + format_number(chart.tokens_per_row()) + " tokens";
}

void draw_life(FigureBuilder& b, const LifeChart& chart, double y, std::int32_t from, std::int32_t to, Colour colour) {
  from = std::max(from, chart.queries.begin), to = std::min(to, chart.queries.end);
  if (to <= from) return;
  const double height = std::max(1.0, chart.pitch() * 0.7);
  const double left = std::min(chart.x(from), chart.box.right() - kLeastLifeBar);
  b.add(FillBox{{left, y - height / 2, std::max(kLeastLifeBar, chart.x(to) - left), height}, colour});
}

void draw_life_bars(FigureBuilder& b, const LifeChart& chart) {
  const bool dark = b.style().dark;
  const double width = std::clamp(chart.pitch() * 0.15, 0.6, 1.6);
  for (int row = chart.rows.begin; row < chart.rows.end; ++row) {
    const TokenLife& life = chart.lives[static_cast<std::size_t>(row)];
    const double y = chart.y(row);
    const std::int32_t from = std::max(life.gone, chart.queries.begin);
    const std::int32_t to = std::min(chart.run.queries(), chart.queries.end);
    if (life.evicted && from < to)
      b.line({chart.x(from), y}, {chart.x(to), y}, eviction_colour(life.verdict, dark), width);
    draw_life(b, chart, y, life.left_window, life.gone, state_colour(TokenState::kept, dark));
    draw_life(b, chart, y, life.t, life.left_window,
              state_colour(life.sink ? TokenState::sink : TokenState::window, dark));
  }
}

/// Each token's number and text where there is room, else numbers where these follow the axis.
std::vector<Tick> life_ticks(const LifeChart& chart, double size, double room) {
  std::vector<Tick> ticks;
  if (chart.pitch() >= size * 1.15) {
    for (int row = chart.rows.begin; row < chart.rows.end; ++row) {
      const auto t = static_cast<std::size_t>(chart.lives[static_cast<std::size_t>(row)].t);
      std::string label = std::to_string(t);
      if (t < chart.run.pieces.size()) label += " " + token_label(chart.run.pieces[t], kMostOfLifeToken);
      ticks.push_back({chart.y(row), shortened(std::move(label), FontRole::text, size, room)});
    }
  } else if (chart.o.order == LifeOrder::position) {
    const int first = chart.lives[0].t;
    const int target = std::max(2, static_cast<int>(chart.box.h / (size * 3)));
    for (const double v : nice_values(first + chart.rows.begin, first + chart.rows.end - 1, target, true)) {
      const auto t = static_cast<int>(std::lround(v));
      ticks.push_back({chart.y(t - first), std::to_string(t)});
    }
  }
  return ticks;
}

std::vector<LegendEntry> lives_legend(const LifeChart& chart, const FigureStyle& s) {
  using Mark = LegendEntry::Mark;
  std::vector<LegendEntry> entries;
  for (const TokenState state : {TokenState::sink, TokenState::window, TokenState::kept})
    entries.push_back({Mark::swatch, std::string(state_name(state)), state_colour(state, s.dark)});
  const LifeCounts counts = count_lives(chart.lives);
  const bool bars = chart.has_bars();
  const auto add = [&](const char* text, EvictionVerdict verdict) {
    entries.push_back({bars ? Mark::curve : Mark::swatch, text,
                       bars ? eviction_colour(verdict, s.dark) : pale_life_colour(verdict, s.dark)});
  };
  if (counts.wrong > 0) add("evicted (oracle keeps)", EvictionVerdict::wrong);
  if (counts.right > 0) add("evicted (oracle agrees)", EvictionVerdict::right);
  if (counts.evicted > counts.wrong + counts.right) add("evicted (no verdict)", EvictionVerdict::unknown);
  if (chart.run.prompt_len < chart.run.n_tokens()) entries.push_back({Mark::line, "answer begins", s.muted});
  return entries;
}

void draw_lives_title(FigureBuilder& b, const LifeChart& chart) {
  const FigureStyle& s = b.style();
  const std::string note = life_cells_note(chart);
  std::string title = lifetimes_summary(chart.run, chart.o, chart.lives);
  // Where there is room for one, it is what cannot be seen: that a row is of many.
  if (!note.empty())
    title = text_width(title + " · " + note, FontRole::text, s.tick_size) <= chart.box.w ? title + " · " + note : note;
  b.text(shortened(title, FontRole::text, s.tick_size, chart.box.w), {chart.box.x, chart.box.y - 2.5}, s.tick_size,
         s.ink);
}

void draw_lives(FigureBuilder& b, const LifeChart& chart, double label_room) {
  const FigureStyle& s = b.style();
  const Box& box = chart.box;
  draw_lives_title(b, chart);
  if (chart.has_bars()) {
    draw_life_bars(b, chart);
  } else {
    Image image = lifetimes_image(chart.shown(), chart.queries, chart.run.queries(), chart.cells(box.w),
                                  chart.cells(box.h), s.dark);
    image.box = box;
    b.add(std::move(image));
  }
  b.frame(box);
  const double answer = chart.x(chart.run.prompt_len);
  if (chart.run.prompt_len < chart.run.n_tokens() && answer > box.x && answer < box.right())
    b.line({answer, box.y}, {answer, box.bottom()}, s.muted, 0.7, 2);
  b.y_ticks(box, life_ticks(chart, s.tick_size, label_room));
  draw_query_axis(b, box, chart.queries);
  for (const std::string& name : {std::string("Tokens, ") + life_order_words(chart.o.order), std::string("Tokens")}) {
    if (text_width(name, FontRole::text, s.label_size) > box.h) continue;
    b.label(name, {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
    break;
  }
  b.figure().panels.push_back({"lives", box, 0, 0});
  if (chart.o.preview) b.preview_frame(box);
}

/// The rows' labels have the same room whether they fit or not: the picture stays where it is while one zooms.
Figure draw_life_chart(LifeChart chart, const FigureStyle& s) {
  const double number = text_width(std::to_string(chart.run.n_tokens()), FontRole::text, s.tick_size);
  const double label_room = std::max(number, std::min(0.16 * s.width, 9 * s.tick_size));
  const double left = s.label_size + 4 + label_room + 2 + FigureBuilder::kTickLength + 1;
  const double width = std::max(20.0, s.width - left - std::max(number / 2, 3.0) - 1);
  FigureBuilder measure(s.width, 0, s);
  chart.box = {0, 0, width,
               s.height > 0 ? s.height : 0.62 * s.width};  // roughly: the legend has as many lines either way
  const double of_legend = measure.legend({0, 0}, width, lives_legend(chart, s), true);
  const bool has_legend = s.height <= 0 || of_legend < s.height / 4;
  const double title = s.tick_size * 1.5 + 2;
  const double top = (has_legend ? of_legend + 2 : 0) + (chart.o.preview ? measure.preview_height() + 2 : 0) + title;
  const double bottom = query_axis_height(s);
  const double height = s.height > 0 ? std::max(4.0, s.height - top - bottom) : 0.62 * s.width;
  chart.box = {left, top, width, height};
  if (chart.cells_per_point == 1) {  // cells are pixels
    const double x = std::floor(left), y = std::floor(top);
    chart.box = {x, y, std::max(4.0, std::floor(left + width) - x), std::max(4.0, std::floor(top + height) - y)};
  }
  FigureBuilder b(s.width, top + height + bottom, s);
  if (has_legend) b.legend({left, 0}, width, lives_legend(chart, s));
  draw_lives(b, chart, label_room);
  if (chart.o.preview) b.preview_badge(left + width, top - title - 2);
  b.figure().title =
      "Lifetimes of tokens in layer " + std::to_string(chart.o.layer) + ", KV head " + std::to_string(chart.o.kv_head);
  return std::move(b.figure());
}

FigureData tidy_lives(const LifeChart& chart) {
  std::vector<std::int64_t> token, born, left, life;
  std::vector<std::string> text, verdict;
  std::vector<double> evict_at, cost;
  for (const TokenLife& one : chart.shown()) {
    const auto t = static_cast<std::size_t>(one.t);
    token.push_back(one.t), born.push_back(one.t), left.push_back(one.left_window), life.push_back(one.length());
    text.push_back(t < chart.run.pieces.size() ? token_label(chart.run.pieces[t]) : "");
    evict_at.push_back(one.evicted ? one.gone : std::nan(""));
    verdict.emplace_back(verdict_of_life(one));
    cost.push_back(has_cost(chart.run) ? one.cost : std::nan(""));
  }
  return {{{"token", token},
           {"text", text},
           {"born", born},
           {"left_window", left},
           {"evict_at", evict_at},
           {"life", life},
           {"verdict", verdict},
           {"cost", cost}}};
}

std::string describe_lives(const LifeChart& chart, const Figure& figure) {
  const auto range = [](TokenSpan span) { return std::to_string(span.begin) + "–" + std::to_string(span.end - 1); };
  std::string text =
      figure.title + ": rows are tokens, " + life_order_words(chart.o.order) +
      ". A bar is the time in the cache; after an eviction, a line in the colour of the oracle's verdict. ";
  if (chart.o.order == LifeOrder::cost || has_cost(chart.run))
    text += "Cost: the future mass (mean attention from each later query under a full cache) of an evicted token. ";
  if (const std::string note = life_cells_note(chart); !note.empty())
    text += "Cells: " + note + ", at the last query of each column. ";
  text += lifetimes_summary(chart.run, chart.o, chart.lives) + ". ";
  if (chart.o.count > 0) text += "Queries " + range(chart.queries) + ". ";
  if (chart.o.n_rows > 0) text += "Rows " + range(chart.rows) + " of " + std::to_string(chart.lives.size()) + ". ";
  return text + describe_run(chart.run) + describe_preview(chart.o.preview);
}

LifeChart life_chart_of(const RunRecord& run, std::span<const TokenLife> lives, const LifetimesOptions& o,
                        double cells) {
  return {run, o, lives, cells, lifetime_rows(o, lives.size()), lifetime_queries(run, o)};
}

}  // namespace

Figure lifetimes_picture(const RunRecord& run, std::span<const TokenLife> lives, const LifetimesOptions& o,
                         const FigureStyle& s) {
  return draw_life_chart(life_chart_of(run, lives, o, 1), s);
}

BuiltFigure lifetimes_figure(const RunRecord& run, const LifetimesOptions& o, const FigureStyle& s) {
  check_lifetimes(run, o);
  const std::vector<TokenLife> lives = lifetimes_of(run, head_verdicts(run, o.layer, o.kv_head), o);
  LifeChart chart = life_chart_of(run, lives, o, kPaperLifeCells);
  Figure figure = draw_life_chart(chart, s);
  chart.box = figure.panel("lives")->box;
  std::string caption = describe_lives(chart, figure);
  return {std::move(figure), tidy_lives(chart), std::move(caption)};
}

}  // namespace kvscope::views
