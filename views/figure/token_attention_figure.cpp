#include "views/figure/token_attention_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/attention_loss.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "token_attention", found, expected, ""});
}

struct AttentionPoint {
  int first = 0, last = 0;  // queries, both included
  double mean = 0, low = 0, high = 0;
};

/// What is drawn of which head: made once, asked for everywhere.
struct Shown {
  const TokenAttention* attention;
  const RunRecord* run;
  int token, group, first_head;
  int begin, end;  // queries of the axis
  bool logarithmic;
};

void check(std::span<const RunRecord* const> runs, const TokenAttentionOptions& o) {
  if (runs.empty()) refuse("no run", "one or two");
  if (!o.attention || o.attention->tokens.size() != 1)
    refuse("attention of no token or of several", "attention of one token");
  const RunRecord& run = *runs[0];
  if (run.n_tokens() < o.attention->n_queries) refuse("a run shorter than what was measured", "the same tokens");
  if (o.kv_head < 0 || o.kv_head >= run.model.n_kv_heads || o.attention->layer >= run.model.n_layers ||
      o.attention->n_heads != run.model.n_heads)
    refuse("attention of another model", "layers and heads of the run");
}

Shown shown_of(const RunRecord& run, const TokenAttentionOptions& o) {
  Shown s{.attention = o.attention.get(), .run = &run};
  s.token = o.attention->tokens[0];
  s.group = run.model.n_heads / run.model.n_kv_heads;
  s.first_head = o.kv_head * s.group;
  s.begin = s.token, s.end = o.attention->n_queries;
  if (o.count > 0)
    s.begin = std::clamp(o.first, 0, s.end - 1), s.end = std::clamp(o.first + o.count, s.begin + 1, s.end);
  s.logarithmic = o.logarithmic;
  return s;
}

std::vector<AttentionPoint> points_of(const Shown& s, int most) {
  std::vector<AttentionPoint> points;
  const int first = std::max(s.begin, s.token), n = s.end - first;
  const int step = std::max(1, (n + most - 1) / std::max(1, most));
  for (int begin = first; begin < s.end; begin += step) {
    AttentionPoint p{begin, std::min(s.end, begin + step) - 1, 0, 1, 0};
    for (int head = s.first_head; head < s.first_head + s.group; ++head) {
      const float* row = s.attention->row(0, head);
      for (int q = p.first; q <= p.last; ++q) {
        p.mean += row[q];
        p.low = std::min<double>(p.low, row[q]), p.high = std::max<double>(p.high, row[q]);
      }
    }
    p.mean /= static_cast<double>(s.group) * (p.last - p.first + 1);
    points.push_back(p);
  }
  return points;
}

struct Axes {
  Box box;
  double begin, end, hi;
  bool logarithmic;
  double x(double q) const { return box.x + (q - begin) / (end - begin) * box.w; }
  double y(double v) const {
    double share = v / hi;
    if (logarithmic) {
      const double lo = std::log10(kLeastAttention);
      share = (std::log10(std::max(v, kLeastAttention)) - lo) / (std::log10(hi) - lo);
    }
    return box.bottom() - std::clamp(share, 0.0, 1.0) * box.h;
  }
  Point at(const AttentionPoint& p, double v) const { return {x((p.first + p.last + 1) / 2.0), y(v)}; }
};

void draw_axes(FigureBuilder& b, const Axes& axes) {
  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  // Of queries, which are whole: the last is end - 1, and a tick is where the query's value is.
  const int n_x = std::max(2, static_cast<int>(axes.box.w / (s.tick_size * 6)));
  for (double v : nice_values(axes.begin, axes.end - 1, n_x, true))
    x.push_back({axes.x(v + 0.5), std::to_string(std::lround(v))});
  std::vector<double> levels;
  if (axes.logarithmic) {
    for (double v = kLeastAttention; v <= axes.hi * 1.0001; v *= 10) levels.push_back(v);
  } else {
    levels = nice_values(0, axes.hi, std::max(2, static_cast<int>(axes.box.h / (s.tick_size * 2.5))));
  }
  for (const double v : levels) {
    b.line({axes.box.x, axes.y(v)}, {axes.box.right(), axes.y(v)}, mix(s.paper, s.rule, 0.25), s.rule_width * 0.8);
    y.push_back({axes.y(v), format_number(v)});
  }
  b.x_ticks(axes.box, x);
  b.y_ticks(axes.box, y);
  const double below = axes.box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  b.label("Query", {axes.box.centre().x, below});
  b.label("Attention", {s.label_size / 2 + 1, axes.box.centre().y}, Anchor::middle, 90);
}

void draw_band(FigureBuilder& b, const Axes& axes, const std::vector<AttentionPoint>& points, Colour colour) {
  if (points.size() > 1) {
    Polygon area{{}, with_alpha(colour, 60)};
    for (const AttentionPoint& p : points) area.points.push_back(axes.at(p, p.high));
    for (auto p = points.rbegin(); p != points.rend(); ++p) area.points.push_back(axes.at(*p, p->low));
    b.add(std::move(area));
  }
  Polyline mean{{}, colour, 1.1, 0};
  for (const AttentionPoint& p : points) mean.points.push_back(axes.at(p, p.mean));
  if (mean.points.size() > 1) return b.add(std::move(mean));
  for (const Point& p : mean.points) b.add(FillBox{{p.x - 1, p.y - 1, 2, 2}, colour, 1});
}

/// "A evicts it at 512, losing 12 % of its attention after the window"
std::string loss_text(const Shown& s, const RunRecord& run, const std::string& name, std::int32_t evict_at) {
  if (evict_at >= kUndecided) return name + (evict_at == kNever ? " keeps it" : " still has it in the window");
  const AttentionLoss loss = attention_loss(*s.attention, 0, s.first_head, s.group, run.geometry().window, evict_at);
  return name + " evicts it at query " + std::to_string(evict_at) + ", losing " + number_text(100 * loss.share(), 3) +
         " % of its attention after the window";
}

struct Marked {
  std::string text;
  std::int32_t evict_at;
  Colour colour;
};

std::vector<Marked> marks_of(const Shown& s, std::span<const RunRecord* const> runs, const TokenAttentionOptions& o,
                             bool dark) {
  std::vector<Marked> marks;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, runs.size()); ++i) {
    const std::int32_t evict_at = lifetime_of(*runs[i], s.attention->layer, o.kv_head, s.token);
    marks.push_back({loss_text(s, *runs[i], i == 0 ? o.name_a : o.name_b, evict_at), evict_at, series_colour(i, dark)});
  }
  return marks;
}

FigureData tidy(const std::vector<AttentionPoint>& points) {
  std::vector<std::int64_t> first, last;
  std::vector<double> mean, low, high;
  for (const AttentionPoint& p : points) {
    first.push_back(p.first), last.push_back(p.last);
    mean.push_back(p.mean), low.push_back(p.low), high.push_back(p.high);
  }
  return {{{"first", first}, {"last", last}, {"mean", mean}, {"low", low}, {"high", high}}};
}

std::string describe(const Shown& s, std::span<const RunRecord* const> runs, const std::vector<Marked>& marks,
                     int kv_head, const std::vector<AttentionPoint>& points) {
  std::string text = "Attention from later queries to " + identity_line(*s.run, s.attention->layer, kv_head, s.token) +
                     " under a full cache: mean over the " + std::to_string(s.group) +
                     " query heads of the group, with their range as a band";
  const int step = points.empty() ? 1 : points[0].last - points[0].first + 1;
  if (step > 1) text += ", each point the mean of " + std::to_string(step) + " queries";
  text += ". ";
  for (const Marked& mark : marks) text += mark.text + ". ";
  text += "A: " + describe_run(*runs[0]);
  if (runs.size() > 1) text += " B: " + describe_run(*runs[1]);
  return text;
}

}  // namespace

BuiltFigure token_attention_figure(std::span<const RunRecord* const> runs, const TokenAttentionOptions& o,
                                   const FigureStyle& s) {
  check(runs, o);
  const Shown shown = shown_of(*runs[0], o);
  const std::vector<AttentionPoint> points = points_of(shown, o.points);
  const std::vector<Marked> marks = marks_of(shown, runs, o, s.dark);
  const Colour line = s.ink;
  std::vector<LegendEntry> legend = {
      {LegendEntry::Mark::curve, "mean of " + std::to_string(shown.group) + " query heads", line},
      {LegendEntry::Mark::swatch, "their range", with_alpha(line, 60)},
      {LegendEntry::Mark::line, "leaves the window", s.muted}};
  for (const Marked& mark : marks) legend.push_back({LegendEntry::Mark::curve, mark.text, mark.colour});

  FigureBuilder measure(s.width, 0, s);
  const double left =
      s.label_size + 4 + text_width("1e−06", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  const double width = std::max(20.0, s.width - left - text_width("00", FontRole::text, s.tick_size));
  const bool preview = o.preview || o.preview_b;
  const double top = measure.legend({0, 0}, width, legend, true) + 3 + (preview ? measure.preview_height() + 2 : 0);
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const double height = s.height > 0 ? std::max(20.0, s.height - top - bottom) : s.width * 0.42;

  double greatest = kLeastAttention * 10;
  for (const AttentionPoint& p : points) greatest = std::max(greatest, p.high);
  const Axes axes{{left, top, width, height},
                  static_cast<double>(shown.begin),
                  static_cast<double>(shown.end),
                  o.logarithmic ? 1.0 : greatest * 1.05,
                  o.logarithmic};
  FigureBuilder b(s.width, top + height + bottom, s);
  b.legend({left, 0}, width, legend);
  draw_axes(b, axes);
  draw_band(b, axes, points, line);
  const auto mark_at = [&](std::int64_t q, Colour colour, double stroke, double dash) {
    const double x = axes.x(static_cast<double>(q) + 0.5);  // of that query, as its tick
    if (q >= shown.begin && q < shown.end) b.line({x, axes.box.y}, {x, axes.box.bottom()}, colour, stroke, dash);
  };
  mark_at(static_cast<std::int64_t>(shown.token) + runs[0]->geometry().window, s.muted, 0.7, 2);
  for (const Marked& mark : marks) mark_at(mark.evict_at, mark.colour, 1.2, 0);
  b.frame(axes.box);
  b.figure().panels.push_back({"attention", axes.box, 0, 0});
  if (preview) {
    b.preview_frame(axes.box);
    b.preview_badge(left + width + 2, top - 4);
  }
  b.figure().title = "Attention of one token by query";
  return {std::move(b.figure()), tidy(points),
          describe(shown, runs, marks, o.kv_head, points) + describe_preview(preview)};
}

}  // namespace kvscope::views
