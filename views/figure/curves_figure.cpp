#include "views/figure/curves_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "curves", found, expected, ""});
}

struct Line {
  std::string name;
  Colour colour;
  RunCurve curve;
};

int n_positions(std::span<const RunRecord* const> runs, const CurvesOptions& o) {
  return curve_positions(*runs[0], o.compare == MapCompare::none ? nullptr : runs[1], o.compare);
}

CurvePart curve_part(std::span<const RunRecord* const> runs, const CurvesOptions& o) {
  const int n = n_positions(runs, o);
  return o.count > 0 ? CurvePart{o.first, std::min(o.count, n - o.first)} : CurvePart{0, n};
}

void check_part(std::span<const RunRecord* const> runs, const CurvesOptions& o) {
  if (o.first < 0 || o.count < 0 || (o.count > 0 && o.first >= n_positions(runs, o)))
    refuse("positions from " + std::to_string(o.first) + " on", "positions of the runs");
}

void check_runs(std::span<const RunRecord* const> runs, const CurvesOptions& o) {
  if (runs.empty()) refuse("no run", "at least one");
  for (const RunRecord* run : runs) resolve_query(*run, -1);
  if (o.compare == MapCompare::none) return;
  if (runs.size() != 2) refuse(std::to_string(runs.size()) + " runs to compare", "exactly two");
  if (!same_shape(*runs[0], *runs[1])) refuse("runs of different shapes", "the same layers and heads");
  if (o.compare == MapCompare::difference && common_prefix(*runs[0], *runs[1]) == 0)
    refuse("a difference of runs that have no token in common", "the same tokens, or both lines");
}

/// Ascending, as run_curve() takes them. A set of which the run has none would mean all of them there: refused.
std::vector<int> counted_heads(const RunRecord& run, const CurvesOptions& o) {
  std::vector<int> heads;
  for (const KvHead head : o.heads.within(run.model.n_layers, run.model.n_kv_heads))
    heads.push_back(head.layer * run.model.n_kv_heads + head.kv_head);
  if (heads.empty() && !o.heads.empty()) refuse("heads " + to_text(o.heads), "heads of the run's model");
  return heads;
}

std::vector<Line> lines_of(std::span<const RunRecord* const> runs, const CurvesOptions& o, bool dark) {
  const std::vector<int> heads = counted_heads(*runs[0], o);
  const Colour a = series_colour(0, dark), b = series_colour(1, dark);
  const CurvePart part = curve_part(runs, o);  // the same points of both lines
  if (o.compare == MapCompare::difference)
    return {
        {o.name_b + " − " + o.name_a, b, run_curve_difference(*runs[0], *runs[1], o.quantity, o.points, heads, part)}};
  std::vector<Line> lines = {{o.name_a, a, run_curve(*runs[0], o.quantity, o.points, heads, part)}};
  if (o.compare == MapCompare::side_by_side)
    lines.push_back({o.name_b, b, run_curve(*runs[1], o.quantity, o.points, heads, part)});
  return lines;
}

/// Nothing was decoded for a preview: its line is left out, not A's drawn in its place.
void leave_out_previews(std::vector<Line>& lines, const CurvesOptions& o) {
  if (previews(o.quantity)) return;
  const bool both = o.compare == MapCompare::difference;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!(both ? o.preview || o.preview_b : i == 0 ? o.preview : o.preview_b)) continue;
    for (CurvePoint& point : lines[i].curve.points) point = {point.first, point.last, 0, NAN, NAN, NAN, NAN, NAN};
    lines[i].curve.mean = NAN;
  }
}

/// The data's axes.
struct Axes {
  Box box;
  double begin = 0, end = 1, lo = 0, hi = 1;
  double x(double position) const { return box.x + (position - begin) / (end - begin) * box.w; }
  double middle(double position) const { return x(position + 0.5); }  // of its cell, where its value is drawn
  double y(double v) const { return box.bottom() - (v - lo) / (hi - lo) * box.h; }
  Point at(const CurvePoint& point, double v) const { return {x((point.first + point.last + 1) / 2.0), y(v)}; }
};

void fit(Axes& axes, const std::vector<Line>& lines, const CurvesOptions& o) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const Line& line : lines) {
    for (const CurvePoint& point : line.curve.points) {
      if (std::isnan(point.mean)) continue;
      lo = std::min(lo, o.band ? std::min({point.low, point.least, point.mean}) : point.mean);
      hi = std::max(hi, o.band ? std::max({point.high, point.greatest, point.mean}) : point.mean);
    }
  }
  const bool difference = o.compare == MapCompare::difference;
  const bool share = o.quantity == RunQuantity::density || o.quantity == RunQuantity::recall ||
                     o.quantity == RunQuantity::page_occupancy;
  if (!(hi >= lo)) lo = 0, hi = 1;
  if (share && !difference) lo = 0, hi = 1;
  if (o.quantity != RunQuantity::nll || difference) lo = std::min(lo, 0.0), hi = std::max(hi, 0.0);
  if (hi == lo) hi = lo + 1;
  const double air = share && !difference ? 0.02 : 0.06;
  axes.lo = lo < 0 || o.quantity == RunQuantity::nll ? lo - air * (hi - lo) : lo;
  axes.hi = hi + air * (hi - lo);
}

/// Stretches of points that have a value.
template <typename Draw>
void each_stretch(const RunCurve& curve, Draw draw) {
  std::vector<CurvePoint> stretch;
  for (const CurvePoint& point : curve.points) {
    if (!std::isnan(point.mean)) {
      stretch.push_back(point);
    } else if (!stretch.empty()) {
      draw(stretch), stretch.clear();
    }
  }
  if (!stretch.empty()) draw(stretch);
}

constexpr std::uint8_t kSpreadAlpha = 30, kRangeAlpha = 62;  // faint: two runs' lie on each other

/// Over the heads, from the middle of a point to that of the next, as the line goes.
Polygon spread_of(const Axes& axes, const std::vector<CurvePoint>& points, Colour colour) {
  Polygon area{{}, with_alpha(colour, kSpreadAlpha)};
  for (const CurvePoint& p : points) area.points.push_back(axes.at(p, p.high));
  for (auto p = points.rbegin(); p != points.rend(); ++p) area.points.push_back(axes.at(*p, p->low));
  return area;
}

/// Of the positions of each point, as wide as they are: a peak is within it however many share a point.
Polygon range_of(const Axes& axes, const std::vector<CurvePoint>& points, Colour colour) {
  Polygon area{{}, with_alpha(colour, kRangeAlpha)};
  for (const CurvePoint& p : points)
    for (const double x : {axes.x(p.first), axes.x(p.last + 1)}) area.points.push_back({x, axes.y(p.greatest)});
  for (auto p = points.rbegin(); p != points.rend(); ++p)
    for (const double x : {axes.x(p->last + 1), axes.x(p->first)}) area.points.push_back({x, axes.y(p->least)});
  return area;
}

void draw_line(FigureBuilder& b, const Axes& axes, const Line& line, const CurvesOptions& o, bool ranges) {
  each_stretch(line.curve, [&](const std::vector<CurvePoint>& points) {
    if (o.band && line.curve.n_parts > 1 && points.size() > 1) b.add(spread_of(axes, points, line.colour));
    if (ranges) b.add(range_of(axes, points, line.colour));
    Polyline mean{{}, line.colour, 1.1, 0};
    for (const CurvePoint& p : points) mean.points.push_back(axes.at(p, p.mean));
    if (mean.points.size() > 1) return b.add(std::move(mean));
    b.add(FillBox{{mean.points[0].x - 1, mean.points[0].y - 1, 2, 2}, line.colour, 1});
  });
}

void draw_axes(FigureBuilder& b, const Axes& axes, const RunRecord& run, const CurvesOptions& o) {
  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  // Of positions, which are whole: the last is end - 1, and a tick is where the position's value is.
  const int n_x = std::max(2, static_cast<int>(axes.box.w / (s.tick_size * 6)));
  for (double v : nice_values(axes.begin, axes.end - 1, n_x, true))
    x.push_back({axes.middle(v), std::to_string(std::lround(v))});
  const int n_y = std::max(2, static_cast<int>(axes.box.h / (s.tick_size * 2.5)));
  for (double v : nice_values(axes.lo, axes.hi, n_y, o.quantity == RunQuantity::cached)) {
    b.line({axes.box.x, axes.y(v)}, {axes.box.right(), axes.y(v)}, mix(s.paper, s.rule, v == 0 ? 0.8 : 0.25),
           s.rule_width * 0.8);
    y.push_back({axes.y(v), format_number(v)});
  }
  if (run.prompt_len > axes.begin && run.prompt_len < axes.end) {  // where the answer begins
    b.line({axes.x(run.prompt_len), axes.box.y}, {axes.x(run.prompt_len), axes.box.bottom()}, s.muted, 0.7, 2);
  }
  b.x_ticks(axes.box, x);
  b.y_ticks(axes.box, y);
  const double below = axes.box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  b.label("Position", {axes.box.centre().x, below});
  const RunQuantityInfo& info = info_of(o.quantity);
  std::string label(info.title);
  if (o.quantity == RunQuantity::recall) label += o.compare == MapCompare::none ? " (own oracle)" : " (own oracles)";
  if (!info.unit.empty()) label += " (" + std::string(info.unit) + ")";
  if (o.compare == MapCompare::difference) label += ", " + o.name_b + " − " + o.name_a;
  const double room = 2 * std::min(axes.box.centre().y, b.figure().height - axes.box.centre().y);
  const auto fits = [&] { return text_width(label, FontRole::text, s.label_size) <= room; };
  if (!fits()) label = std::string(info.title);  // a low picture: the caption has its unit
  if (fits()) b.label(label, {s.label_size / 2 + 1, axes.box.centre().y}, Anchor::middle, 90);
}

/// An entry, and what it is called in little room: of a line first with its mean, then by its name alone.
struct Named {
  LegendEntry entry;
  std::string brief, bare;
};

std::vector<Named> legend_entries(const std::vector<Line>& lines, const CurvesOptions& o, Colour muted,
                                  const std::string& of_a_point, bool has_answer) {
  using Mark = LegendEntry::Mark;
  std::vector<Named> entries;
  const auto add = [&](Mark mark, const std::string& label, const std::string& brief, Colour colour,
                       const std::string& bare = "") {
    Named& named = entries.emplace_back();
    named.entry.mark = mark, named.entry.label = label, named.entry.colour = colour;
    named.brief = brief, named.bare = bare.empty() ? brief : bare;
  };
  for (const Line& line : lines) {
    const std::string name = o.compare == MapCompare::none ? "" : line.name + ", ";
    const std::string mean = format_number(line.curve.mean, 4);
    const std::string oracle =
        line.curve.oracle.n > 0 ? " (" + oracle_label(OracleOf::own, line.curve.oracle) + ")" : "";
    // A mean of a part is not the run's: that is said in little room too.
    add(Mark::swatch, name + (o.count > 0 ? "mean of the shown part " : "mean ") + mean + oracle,
        name + (o.count > 0 ? "shown " : "") + mean, line.colour, name.empty() ? "" : line.name);
  }
  if (const auto spread = info_of(o.quantity).spread_of; o.band && !spread.empty())
    add(Mark::swatch,
        "middle half of the " + (o.heads.empty() ? "" : std::to_string(lines[0].curve.n_parts) + " marked ") +
            std::string(spread),
        "middle half", with_alpha(lines[0].colour, kSpreadAlpha));
  if (o.band && !of_a_point.empty())
    add(Mark::swatch, "range of the " + of_a_point + " per point", "range", with_alpha(lines[0].colour, kRangeAlpha));
  if (has_answer) add(Mark::line, "answer begins", "answer", muted);
  return entries;
}

/// What `width` and `height` have room for: no word of a legend is cut. Brief names go first, then what is not a line, then
/// the lines' means, then the ends of their names. What is wider than a row even so is left out; of lines all have their names
/// or none has.
std::vector<LegendEntry> legend_within(FigureBuilder& b, const std::vector<Named>& all, std::size_t n_lines,
                                       double width, double height) {
  const double size = b.style().tick_size;  // a swatch and a gap come before the label: two of these
  const auto fits = [&](const std::string& label) {
    return 2 * size + text_width(label, FontRole::text, size) <= width;
  };
  std::vector<LegendEntry> entries;
  const auto has_room = [&](std::size_t n, std::string Named::*little, bool always) {
    entries.clear();
    for (std::size_t i = 0; i < n; ++i) {
      LegendEntry entry = all[i].entry;
      if (always || !fits(entry.label)) entry.label = all[i].*little;
      if (fits(entry.label)) {
        entries.push_back(std::move(entry));
      } else if (i < n_lines) {
        return false;
      }
    }
    return entries.empty() || b.legend({0, 0}, width, entries, true) <= height;
  };
  if (has_room(all.size(), &Named::brief, false)) return entries;
  for (std::size_t n = all.size(); n >= n_lines; --n) {
    if (has_room(n, &Named::brief, true)) return entries;
  }
  if (has_room(n_lines, &Named::bare, true)) return entries;
  // Names that a person wrote may be of any length: all are cut to stand in one row.
  std::vector<Named> cut(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n_lines));
  const double room = width / static_cast<double>(n_lines) - 3.5 * size;
  for (Named& named : cut) named.entry.label = shortened(named.bare, FontRole::text, size, room);
  entries.clear();
  for (const Named& named : cut) entries.push_back(named.entry);
  const bool legible = room > 2 * size && b.legend({0, 0}, width, entries, true) <= height;
  return legible ? entries : std::vector<LegendEntry>();
}

FigureData tidy(const std::vector<Line>& lines, const CurvesOptions& o) {
  std::vector<std::string> run;
  std::vector<std::int64_t> first, last, n, pairs;
  std::vector<double> mean, low, high, least, greatest;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const CurvePoint& p : lines[i].curve.points) {
      run.emplace_back(o.compare == MapCompare::difference ? "B-A" : i == 0 ? "A" : "B");
      first.push_back(p.first), last.push_back(p.last), n.push_back(p.n);
      pairs.push_back(p.pairs);
      mean.push_back(p.mean), low.push_back(p.low), high.push_back(p.high);
      least.push_back(p.least), greatest.push_back(p.greatest);
    }
  }
  FigureData data{{{"run", run},
                   {"first", first},
                   {"last", last},
                   {"n", n},
                   {"mean", mean},
                   {"low", low},
                   {"high", high},
                   {"least", least},
                   {"greatest", greatest}}};
  // What each mean is over, where heads have values at other queries each: by it the points' means make the line's.
  if (o.quantity == RunQuantity::recall) data.columns.push_back({"pairs", pairs});
  return data;
}

std::string describe(std::span<const RunRecord* const> runs, const std::vector<Line>& lines, const CurvesOptions& o) {
  const RunQuantityInfo& info = info_of(o.quantity);
  const std::string of_a_point = positions_of_a_point(curve_part(runs, o).count, o.points);
  std::string text = std::string(info.title) + " by position";
  if (!of_a_point.empty()) {
    text += ", each point the mean of " + of_a_point;
    if (o.band) text += std::string(", their range as ") + (info.spread_of.empty() ? "a" : "the darker") + " band";
  }
  if (!info.spread_of.empty())
    text += (o.quantity == RunQuantity::recall ? ", mean over pairs of query and " : ", mean over ") +
            std::string(info.spread_of);
  if (!o.heads.empty() && !info.spread_of.empty()) text += " (heads " + to_text(o.heads) + ")";
  if (o.count > 0)
    text += ", positions " + std::to_string(o.first) + " to " + std::to_string(o.first + o.count - 1) + " of the run";
  text += ". Definition: " + std::string(info.definition) + ". ";
  if (o.compare == MapCompare::none) {
    text += describe_run(*runs[0]);
  } else {
    text += "A: " + describe_run(*runs[0]) + " B: " + describe_run(*runs[1]);
  }
  const char* names[] = {"A", "B"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (const OracleMean& oracle = lines[i].curve.oracle; oracle.n > 0)
      text += (lines.size() > 1 ? std::string(" ") + names[i] + ": own oracle, " : " Own oracle, ") + k_text(oracle) +
              ", mean " + format_number(oracle.recall, 4) + ".";
  }
  if (o.compare == MapCompare::difference && o.quantity == RunQuantity::recall)
    text += " Each is judged by its own oracle.";
  if (o.compare == MapCompare::difference)
    text += " Over the " + std::to_string(common_prefix(*runs[0], *runs[1])) + " tokens that A and B share.";
  if ((o.preview || o.preview_b) && !previews(o.quantity)) text += " A preview is not measured, so it has no line.";
  return text + describe_preview(o.preview || o.preview_b);
}

}  // namespace

int curve_positions(const RunRecord& a, const RunRecord* b, MapCompare compare) {
  if (compare == MapCompare::none) return a.n_tokens();
  return compare == MapCompare::difference ? common_prefix(a, *b) : std::max(a.n_tokens(), b->n_tokens());
}

std::string positions_of_a_point(int n, int points) {
  if (n <= points || points < 1) return {};
  const int least = n / points;
  return std::to_string(least) + (n % points > 0 ? " or " + std::to_string(least + 1) : "") + " positions";
}

bool previews(RunQuantity quantity) { return quantity != RunQuantity::nll && quantity != RunQuantity::output_error; }

BuiltFigure curves_figure(std::span<const RunRecord* const> runs, const CurvesOptions& o, const FigureStyle& s) {
  check_runs(runs, o);
  check_part(runs, o);
  std::vector<Line> lines = lines_of(runs, o, s.dark);
  leave_out_previews(lines, o);
  const bool preview = o.preview || o.preview_b;
  Axes axes;
  axes.end = n_positions(runs, o);
  if (o.count > 0) axes.begin = o.first, axes.end = std::min(axes.end, static_cast<double>(o.first) + o.count);
  fit(axes, lines, o);
  const std::string of_a_point = positions_of_a_point(curve_part(runs, o).count, o.points);

  FigureBuilder measure(s.width, 0, s);
  const double left =
      s.label_size + 4 + text_width("−0.000", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  const double width = std::max(20.0, s.width - left - text_width("00", FontRole::text, s.tick_size));
  const double above = 3 + (preview ? measure.preview_height() + 2 : 0);
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  // Half of a figure of a given height is the plot's.
  const double room = s.height > 0 ? s.height / 2 - above - bottom : std::numeric_limits<double>::infinity();
  const bool has_answer = runs[0]->prompt_len > axes.begin && runs[0]->prompt_len < axes.end;
  const auto legend =
      legend_within(measure, legend_entries(lines, o, s.muted, of_a_point, has_answer), lines.size(), width, room);
  const double top = above + (legend.empty() ? 0 : measure.legend({0, 0}, width, legend, true));
  const double height = s.height > 0 ? std::max(20.0, s.height - top - bottom) : s.width * 0.42;

  FigureBuilder b(s.width, top + height + bottom, s);
  b.legend({left, 0}, width, legend);
  axes.box = {left, top, width, height};
  draw_axes(b, axes, *runs[0], o);
  for (const Line& line : lines) draw_line(b, axes, line, o, o.band && !of_a_point.empty());
  b.frame(axes.box);
  b.figure().panels.push_back({"curves", axes.box, 0, 0});
  if (preview) {
    b.preview_frame(axes.box);
    b.preview_badge(left + width + 2, top - 4);
  }
  b.figure().title = std::string(info_of(o.quantity).title) + " by position";
  return {std::move(b.figure()), tidy(lines, o), describe(runs, lines, o)};
}

}  // namespace kvscope::views
