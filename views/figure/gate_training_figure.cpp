#include "views/figure/gate_training_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/text.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/plot.h"
#include "views/figure/probe_words.h"
#include "views/figure/study_lines_figure.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kProbesBeside = 34, kProbePlots = 0.36;      // sizes of the letters: map beside lines; of the width
constexpr double kLeastProbePlot = 7, kMostProbeText = 0.45;  // sizes of the letters; of the height

/// Over all that has a value; a range without an extent gets one.
std::pair<double, double> probe_range(const std::vector<float>& values) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const float v : values)
    if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
  if (!(lo <= hi)) return {0, 1};
  return lo < hi ? std::pair(lo, hi) : std::pair(lo - 0.5, hi + 0.5);
}

/// The same at all steps, so that a colour means the same in each.
ColourScale probe_map_scale(const ProbeSummary& probes, ProbeQuantity quantity, Colormap colormap) {
  if (quantity == ProbeQuantity::kept) return {colormap, 0, 1, 0, "Kept share"};
  const auto [lo, hi] = probe_range(probes.score);
  return {colormap, lo, hi, 0, "Mean score"};
}

ColourScale probe_text_scale(const ProbeSummary& probes, Colormap colormap) {
  const auto [lo, hi] = probe_range(probes.token_score);
  return {colormap, lo, hi, 0, "Mean score"};
}

/// Neither end of the map is lost on the ground.
Colour probe_layer_colour(int layer, int n_layers, const FigureStyle& s) {
  const double share = n_layers > 1 ? static_cast<double>(layer) / (n_layers - 1) : 0;
  return sample(Colormap::viridis, s.dark ? 0.25 + 0.75 * share : 0.85 * share);
}

struct ProbeLayout {
  Box map, lines, text;  // the areas of cells and lines; of height 0: left out
  double height = 0, map_bar = 0, layer_bar = 0, text_bar = 0;
};

/// The parts of the top, in `room`.
void place_probe_plots(ProbeLayout& l, const ProbeSummary& probes, const GateTrainingOptions& o, const Box& room,
                       const FigureStyle& s) {
  FigureBuilder measure(s.width, 0, s);
  const double axis = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const double of_numbers = text_width("00", FontRole::text, s.tick_size) + FigureBuilder::kTickLength + 3;
  const double left = s.label_size + 4 + of_numbers, wide_left = left + text_width("0.0", FontRole::text, s.tick_size);
  const bool beside = s.width >= kProbesBeside * s.label_size;
  const double each = beside ? room.h : std::floor(room.h / 2), height = each - axis;
  if (height < 2 * s.label_size) return;
  l.map_bar = measure.colour_bar_width(probe_map_scale(probes, drawn_quantity(probes, o), o.colormap), height) + 11;
  l.layer_bar =
      measure.colour_bar_width({Colormap::viridis, 0, probes.n_layers - 1.0, probes.n_layers, "Layer"}, height) + 11;
  const double map_width = beside ? std::clamp(room.w * 0.36, 13 * s.label_size, 26 * s.label_size) : room.w;
  l.map = {room.x + left, room.y, std::max(8.0, map_width - left - l.map_bar), height};
  const double x = beside ? room.x + map_width + s.label_size : room.x, y = beside ? room.y : room.y + each;
  l.lines = {x + wide_left, y, std::max(8.0, room.x + room.w - x - wide_left - l.layer_bar), height};
}

ProbeLayout probe_layout(const ProbeSummary& probes, const GateTrainingOptions& o, const FigureStyle& s) {
  ProbeLayout l;
  const double title = s.label_size * 1.7, gap = s.label_size * 0.6, of_label = s.label_size * 1.5;
  FigureBuilder measure(s.width, 0, s);
  l.text_bar = measure.colour_bar_width(probe_text_scale(probes, o.colormap), 6 * s.tick_size) + 11;
  const double text_width_all = std::max(8.0, s.width - l.text_bar);
  // Of a short text, the words beside its bar are what needs most.
  const double of_bar = text_width(probe_text_scale(probes, o.colormap).label, FontRole::text, s.label_size) + 2;
  const double needed = std::max(probe_words_height(probes, text_width_all, s.tick_size), of_bar);
  const bool beside = s.width >= kProbesBeside * s.label_size;
  const double plots = s.width * kProbePlots * (beside ? 1 : 2);
  l.height = s.height > 0 ? s.height : title + plots + gap + of_label + needed + 2;
  double text = s.height > 0 ? std::min(needed, s.height * kMostProbeText) : needed;
  if (l.height - title - gap - of_label - text - 2 < kLeastProbePlot * s.label_size * (beside ? 1 : 2)) text = 0;
  const double below = text > 0 ? text + of_label + gap + 2 : 0;
  place_probe_plots(l, probes, o, {0, title, s.width, l.height - title - below}, s);
  if (text > 0) l.text = {1, l.height - text - 2, text_width_all, text};
  return l;
}

void draw_probe_lines(FigureBuilder& b, const ProbeSummary& probes, std::size_t shown, ProbeQuantity quantity,
                      const ProbeLayout& l) {
  const FigureStyle& s = b.style();
  const ProbeAxes axes = probe_axes(probes, quantity);
  const PlotBox plot{l.lines, {.lo = axes.step_lo, .hi = axes.step_hi}, {.lo = axes.lo, .hi = axes.hi}};
  draw_plot_axes(b, plot, "Step", quantity == ProbeQuantity::kept ? "Kept share" : "Mean score");
  const double x = plot.at(probes.steps[shown], axes.lo).x;
  b.line({x, l.lines.y}, {x, l.lines.bottom()}, s.muted, 0.8, 2.5);
  for (int layer = 0; layer < probes.n_layers; ++layer) {
    Polyline line{{}, probe_layer_colour(layer, probes.n_layers, s), 1.1, 0};
    for (std::size_t probe = 0; probe < probes.steps.size(); ++probe) {
      const float value = probes.of_layer(probe, layer, quantity);
      if (!std::isnan(value)) line.points.push_back(plot.at(probes.steps[probe], value));
    }
    if (line.points.size() == 1) draw_mark(b, PlotMark::circle, line.points[0], 3, line.colour);
    if (line.points.size() > 1) b.add(std::move(line));
  }
  b.frame(l.lines);
  b.figure().panels.push_back({"lines", l.lines, 0, 0});
  const ColourScale scale{Colormap::viridis, 0, probes.n_layers - 1.0, probes.n_layers, "Layer"};
  b.colour_bar({l.lines.right() + 5, l.lines.y, 6, l.lines.h}, scale, [&](double v) {
    return probe_layer_colour(std::clamp(static_cast<int>(std::lround(v)), 0, probes.n_layers - 1), probes.n_layers, s);
  });
}

std::string probe_step_words(const ProbeSummary& probes, std::size_t probe) {
  return "step " + number_text(probes.steps[probe], 12);
}

std::string probe_threshold_words(const ProbeSummary& probes, std::size_t probe) {
  const float threshold = probes.threshold[probe];
  return std::isnan(threshold) ? "" : "threshold " + format_number(threshold);
}

FigureData probe_data(const ProbeSummary& probes, std::size_t shown) {
  const double none = std::nan("");
  std::vector<std::string> mark, text;
  std::vector<double> step, layer, kv_head, token, kept, score;
  const auto add = [&](const char* of, std::string piece, std::initializer_list<double> values) {
    mark.emplace_back(of), text.push_back(std::move(piece));
    auto value = values.begin();
    for (auto* column : {&step, &layer, &kv_head, &token, &kept, &score}) column->push_back(*value++);
  };
  const HeadMap keeps = probes.map(shown, ProbeQuantity::kept), scores = probes.map(shown, ProbeQuantity::score);
  for (int l = 0; l < probes.n_layers; ++l)
    for (int h = 0; h < probes.n_kv_heads; ++h)
      add("head", "", {probes.steps[shown], 1.0 * l, 1.0 * h, none, keeps.at(l, h), scores.at(l, h)});
  for (std::size_t probe = 0; probe < probes.steps.size(); ++probe)
    for (int l = 0; l < probes.n_layers; ++l)
      add("layer", "",
          {probes.steps[probe], 1.0 * l, none, none, probes.of_layer(probe, l, ProbeQuantity::kept),
           probes.of_layer(probe, l, ProbeQuantity::score)});
  for (int t = 0; t < probes.n_tokens; ++t) {
    const auto i = static_cast<std::size_t>(t);
    add("token", token_label(probes.pieces[i]),
        {probes.steps[shown], none, none, 1.0 * t, none,
         probes.token_score[shown * static_cast<std::size_t>(probes.n_tokens) + i]});
  }
  return {{{"mark", mark},
           {"step", step},
           {"layer", layer},
           {"kv_head", kv_head},
           {"token", token},
           {"text", text},
           {"kept", kept},
           {"score", score}}};
}

std::string describe_probes(const ProbeSummary& probes, std::size_t shown, ProbeQuantity quantity) {
  const std::string what = quantity == ProbeQuantity::kept ? "kept share" : "mean score";
  const std::string threshold = probe_threshold_words(probes, shown);
  const HeadMap map = probes.map(shown, quantity);
  return "Scores of a held-out text of " + std::to_string(probes.n_tokens) + " tokens while a gate trains" +
         (probes.source.empty() ? "" : " (" + probes.source + ")") + ", at " + probe_step_words(probes, shown) +
         ". Map: " + what + " of each head. Lines: " + what + ", mean over the KV heads of a layer, at " +
         std::to_string(probes.steps.size()) + (probes.steps.size() == 1 ? " step" : " steps") +
         "; dashed: the step of the map. Text: mean score over the heads, on one scale for all steps. " +
         std::string(quantity == ProbeQuantity::kept ? kKeptOfProbeDefinition : kScoreOfProbeDefinition) +
         (threshold.empty() ? "" : " T" + threshold.substr(1) + ".") + std::string(hatch_note(std::span(&map, 1)));
}

}  // namespace

ProbeQuantity drawn_quantity(const ProbeSummary& probes, const GateTrainingOptions& options) {
  return probes.has_threshold() ? options.quantity : ProbeQuantity::score;
}

ProbeAxes probe_axes(const ProbeSummary& probes, ProbeQuantity quantity) {
  ProbeAxes axes{.step_lo = probes.steps.front(), .step_hi = probes.steps.back()};
  if (!(axes.step_hi > axes.step_lo)) axes.step_hi = axes.step_lo + 1;
  if (quantity == ProbeQuantity::kept) return axes;
  std::vector<float> values;
  for (std::size_t probe = 0; probe < probes.steps.size(); ++probe)
    for (int layer = 0; layer < probes.n_layers; ++layer) values.push_back(probes.of_layer(probe, layer, quantity));
  const auto [lo, hi] = probe_range(values);
  return {axes.step_lo, axes.step_hi, lo - 0.04 * (hi - lo), hi + 0.04 * (hi - lo)};
}

Figure draw_gate_training(const ProbeSummary& probes, const GateTrainingOptions& o, const FigureStyle& s) {
  const std::size_t shown = probes.probe_at(o.step);
  const ProbeQuantity quantity = drawn_quantity(probes, o);
  const ProbeLayout l = probe_layout(probes, o, s);
  FigureBuilder b(s.width, l.height, s);
  std::string title = "S" + probe_step_words(probes, shown).substr(1), rest = probes.source;
  if (const std::string threshold = probe_threshold_words(probes, shown); !threshold.empty())
    rest += (rest.empty() ? "" : ", ") + threshold;
  b.text(title, {1, s.label_size * 1.1}, s.label_size, s.ink, Anchor::start, Baseline::alphabetic, 0, FontRole::bold);
  const double after = text_width(title + "  ", FontRole::bold, s.label_size);
  b.text(shortened(rest, FontRole::text, s.label_size, std::max(1.0, s.width - after - 2)),
         {1 + after, s.label_size * 1.1}, s.label_size, s.muted);
  if (l.map.h > 0) {
    const ColourScale scale = probe_map_scale(probes, quantity, o.colormap);
    draw_head_map(b, "map", l.map, probes.map(shown, quantity), scale, {});
    if (text_width("Layer", FontRole::text, s.label_size) <= l.map.h)
      b.label("Layer", {s.label_size / 2 + 1, l.map.centre().y}, Anchor::middle, 90);
    b.colour_bar({l.map.right() + 5, l.map.y, 6, l.map.h}, scale);
    draw_probe_lines(b, probes, shown, quantity, l);
  }
  if (l.text.h > 0) {
    const ColourScale scale = probe_text_scale(probes, o.colormap);
    const auto words = probe_words(probes, l.text, s.tick_size);
    const int left_out = probes.n_tokens - static_cast<int>(words.size());
    b.text(shortened("Mean score of each token over the heads" +
                         (left_out > 0 ? " (the last " + std::to_string(left_out) + " are not shown)" : std::string()),
                     FontRole::text, s.label_size, s.width - 2),
           {1, l.text.y - s.label_size * 0.5}, s.label_size, s.ink);
    draw_probe_words(b, probes, shown, l.text, scale);
    b.colour_bar({l.text.right() + 5, l.text.y, 6, std::min(l.text.h, 8 * s.tick_size)}, scale);
  }
  b.figure().title = "Gates in training";
  return std::move(b.figure());
}

BuiltFigure gate_training_figure(const StudyTable& study, const GateTrainingOptions& o, const FigureStyle& s) {
  const ProbeSummary probes = summarise_probes(study, o.source);
  const std::size_t shown = probes.probe_at(o.step);
  return {draw_gate_training(probes, o, s), probe_data(probes, shown),
          describe_probes(probes, shown, drawn_quantity(probes, o)) + describe_study(study, {})};
}

}  // namespace kvscope::views
