#include "views/figure/lost_fact_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/heads/head_selection.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/query_axis.h"

namespace kvscope::views {
namespace {

constexpr double kLabelPitch = 1.15;  // of a row with its head's name, in sizes of its letters

/// One run's part of the picture.
struct HeadRowsPanel {
  const RunRecord* run;
  const LostFactRun* lost;
  std::size_t number;
  std::string title;
  bool preview;
  Box box{};
};

std::string head_label(const HeadSpan& head) {
  return "L" + std::to_string(head.layer) + " H" + std::to_string(head.kv_head);
}

/// Each head's name where there is room, else where each layer begins; by mass nothing then.
std::vector<Tick> head_ticks(const HeadRowsPanel& panel, HeadOrder order, double size) {
  std::vector<Tick> ticks;
  const auto n = static_cast<int>(panel.lost->rows.size());
  if (n == 0) return ticks;
  const double pitch = panel.box.h / n;
  double next = panel.box.y;
  int layer = -1;
  for (int i = 0; i < n; ++i) {
    const HeadSpan& head =
        panel.lost->loss.heads[static_cast<std::size_t>(panel.lost->rows[static_cast<std::size_t>(i)])];
    const double at = panel.box.y + (i + 0.5) * pitch;
    if (pitch >= size * kLabelPitch) {
      ticks.push_back({at, head_label(head)});
    } else if (order == HeadOrder::layer && head.layer != layer && at >= next) {
      ticks.push_back({at, "L" + std::to_string(head.layer)});
      next = at + size * 1.3;
    }
    layer = head.layer;
  }
  return ticks;
}

std::vector<LegendEntry> legend_of(std::span<const HeadRowsPanel> panels, bool dark, Colour muted) {
  using Mark = LegendEntry::Mark;
  std::vector<LegendEntry> entries = {{Mark::swatch, "has all of it", share_colour(1, dark)},
                                      {Mark::swatch, "half of it", share_colour(0.5, dark)},
                                      {Mark::swatch, "none", share_colour(0, dark)}};
  bool judged = false, unknown = false, answer = false;
  for (const HeadRowsPanel& panel : panels) {
    judged = judged || panel.lost->loss.judged > 0;
    unknown = unknown || panel.lost->loss.evicted > panel.lost->loss.judged;
    answer = answer || panel.run->prompt_len < panel.run->n_tokens();
  }
  const auto add = [&](const char* text, EvictionVerdict verdict) {
    entries.push_back({Mark::swatch, text, eviction_colour(verdict, dark)});
  };
  if (judged)
    add("evicted (oracle keeps)", EvictionVerdict::wrong), add("evicted (oracle agrees)", EvictionVerdict::right);
  if (unknown) add("evicted (no verdict)", EvictionVerdict::unknown);
  if (answer) entries.push_back({Mark::line, "answer begins", muted});
  return entries;
}

void draw_panel(FigureBuilder& b, const HeadRowsPanel& panel, TokenSpan queries, HeadOrder order) {
  const FigureStyle& s = b.style();
  const Box& box = panel.box;
  b.text(shortened(panel.title, FontRole::text, s.tick_size, box.w), {box.x, box.y - 2.5}, s.tick_size, s.ink);
  Image image = lost_fact_image(*panel.run, *panel.lost, queries, box, s.dark);
  const int columns = image.columns, rows = image.rows;
  b.add(std::move(image));
  b.frame(box);
  const double x = box.x + static_cast<double>(panel.run->prompt_len - queries.begin) / queries.size() * box.w;
  if (panel.run->prompt_len < panel.run->n_tokens() && x > box.x && x < box.right())
    b.line({x, box.y}, {x, box.bottom()}, s.muted, 0.7, 2);
  b.y_ticks(box, head_ticks(panel, order, s.tick_size));
  b.figure().panels.push_back(
      {panel.number == 0 ? "heads" : "heads." + std::to_string(panel.number), box, columns, rows});
  if (panel.preview) b.preview_frame(box);
}

void draw_head_label(FigureBuilder& b, const Box& last, double top, HeadOrder order) {
  const FigureStyle& s = b.style();
  const double room = last.bottom() - top;
  for (const char* name : {order == HeadOrder::mass ? "Heads, most mass lost first" : "Heads by layer", "Heads"}) {
    if (text_width(name, FontRole::text, s.label_size) > room) continue;
    return b.label(name, {s.label_size / 2 + 1, (top + last.bottom()) / 2}, Anchor::middle, 90);
  }
}

FigureData tidy_heads(std::span<const HeadRowsPanel> panels, const LostFactOptions& o) {
  std::vector<std::string> run;
  std::vector<std::int64_t> layer, kv_head, tokens, at_answer, at_end, evicted, judged, wrong, token_queries;
  std::vector<double> gone_at, mass, bytes;
  for (const HeadRowsPanel& panel : panels) {
    const double token = static_cast<double>(hybrid_bytes(panel.run->model, {0}, {}, 1).dense);
    for (const int row : panel.lost->rows) {
      const HeadSpan& head = panel.lost->loss.heads[static_cast<std::size_t>(row)];
      run.push_back(run_name(o, panel.number));
      layer.push_back(head.layer), kv_head.push_back(head.kv_head), tokens.push_back(panel.lost->loss.n_tokens());
      at_answer.push_back(head.held_at_answer), at_end.push_back(head.held_at_end);
      gone_at.push_back(head.gone_at >= kUndecided ? std::nan("") : head.gone_at);
      evicted.push_back(static_cast<std::int64_t>(head.evictions.size()));
      judged.push_back(head.judged), wrong.push_back(head.wrong), token_queries.push_back(head.token_queries);
      mass.push_back(panel.run->future_mass.empty() ? std::nan("") : head.mass_lost);
      bytes.push_back(token > 0 ? token * static_cast<double>(head.evictions.size()) : std::nan(""));
    }
  }
  return {{{"run", run},
           {"layer", layer},
           {"kv_head", kv_head},
           {"tokens", tokens},
           {"held_at_answer", at_answer},
           {"held_at_end", at_end},
           {"gone_at", gone_at},
           {"evicted", evicted},
           {"judged", judged},
           {"wrong", wrong},
           {"mass_lost", mass},
           {"token_queries", token_queries},
           {"bytes", bytes}}};
}

std::string describe_fact(std::span<const HeadRowsPanel> panels, const LostFactOptions& o) {
  const SpanLoss& loss = panels[0].lost->loss;
  std::string text = "Heads that still have " + span_name(*panels[0].run, loss) + ", tokens " +
                     std::to_string(loss.first) + " to " + std::to_string(loss.last) +
                     ", at each query. Rows are KV heads" +
                     (o.order == HeadOrder::mass ? ", those that lost the most future mass first. " : " by layer. ") +
                     "Mass lost is the future mass (mean attention from each later query under a full cache) of the "
                     "evicted tokens, summed over heads.";
  for (const HeadRowsPanel& panel : panels) {
    text += " " + run_name(o, panel.number) + ": " + span_sentence(*panel.run, panel.lost->loss) + " " +
            describe_run(*panel.run) + describe_preview(panel.preview);
  }
  return text;
}

/// Titles, boxes and previews of all runs below `top`.
std::vector<HeadRowsPanel> panels_of(std::span<const RunRecord* const> runs, std::span<const LostFactRun> lost,
                                     const LostFactOptions& o) {
  std::vector<HeadRowsPanel> panels;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool preview = std::ranges::find(o.previews, static_cast<int>(i)) != o.previews.end();
    panels.push_back({runs[i], &lost[i], i,
                      run_name(o, i) + ", " + runs[i]->policy.name + ": " + span_summary(*runs[i], lost[i].loss) +
                          " · " + runs[i]->policy.brief(),
                      preview});
  }
  return panels;
}

/// Of the axis of heads: its name, and the widest of the labels that it may have where a run has at most `height` points.
double left_margin(std::span<const HeadRowsPanel> panels, HeadOrder order, double height, const FigureStyle& s) {
  double widest = 0;
  for (const HeadRowsPanel& panel : panels) {
    if (order == HeadOrder::layer) widest = std::max(widest, text_width("L00", FontRole::text, s.tick_size));
    if (height < s.tick_size * kLabelPitch * static_cast<double>(panel.lost->rows.size())) continue;
    for (const HeadSpan& head : panel.lost->loss.heads)
      widest = std::max(widest, text_width(head_label(head), FontRole::text, s.tick_size));
  }
  return s.label_size + 4 + widest + 2 + FigureBuilder::kTickLength + 1;
}

}  // namespace

TokenSpan lost_fact_queries(std::span<const RunRecord* const> runs, const LostFactOptions& options) {
  int n = 0;
  for (const RunRecord* run : runs) n = std::max(n, run->n_tokens());
  return options.count > 0 ? TokenSpan{options.first, options.first + std::min(options.count, n - options.first)}
                           : TokenSpan{0, n};
}

BuiltFigure lost_fact_figure(std::span<const RunRecord* const> runs, const LostFactOptions& options,
                             const FigureStyle& style) {
  std::vector<EvictionVerdicts> verdicts;
  for (const RunRecord* run : runs) verdicts.push_back(verdicts_of(*run));
  std::vector<const EvictionVerdicts*> pointers;
  for (const EvictionVerdicts& of_run : verdicts) pointers.push_back(&of_run);
  return lost_fact_figure(runs, lost_fact_runs(runs, pointers, options), options, style);
}

BuiltFigure lost_fact_figure(std::span<const RunRecord* const> runs, std::span<const LostFactRun> lost,
                             const LostFactOptions& o, const FigureStyle& s) {
  if (std::ranges::all_of(lost, [](const LostFactRun& run) { return run.rows.empty(); }))
    throw Error(
        {ExitCode::bad_input, "", "lost_fact", "no head in which a policy decides", "a span that a run has read", ""});
  std::vector<HeadRowsPanel> panels = panels_of(runs, lost, o);
  const TokenSpan queries = lost_fact_queries(runs, o);
  const auto legend = legend_of(panels, s.dark, s.muted);
  const auto n = static_cast<double>(panels.size());
  const bool preview = !o.previews.empty();
  const double fitting = std::clamp(2.4 * static_cast<double>(lost[0].rows.size()), 40.0, 160.0);
  const double left = left_margin(panels, o.order, s.height > 0 ? s.height / n : fitting, s);
  const double width = std::max(20.0, s.width - left - text_width("00", FontRole::text, s.tick_size));

  FigureBuilder measure(s.width, 0, s);
  const double of_legend = measure.legend({0, 0}, width, legend, true);
  const bool has_legend = s.height <= 0 || of_legend < s.height / 4;
  const double top = (has_legend ? of_legend + 2 : 0) + (preview ? measure.preview_height() + 2 : 0);
  const double bottom = query_axis_height(s);
  const double title = s.tick_size * 1.5 + 2;
  const double box_height = s.height > 0 ? std::max(4.0, (s.height - top - bottom) / n - title) : fitting;

  FigureBuilder b(s.width, top + n * (title + box_height) + bottom, s);
  if (has_legend) b.legend({left, 0}, width, legend);
  for (HeadRowsPanel& panel : panels) {
    const double y = top + static_cast<double>(panel.number) * (title + box_height) + title;
    panel.box = {left, y, width, box_height};
    draw_panel(b, panel, queries, o.order);
  }
  draw_query_axis(b, panels.back().box, queries);
  draw_head_label(b, panels.back().box, top, o.order);
  if (preview) b.preview_badge(left + width + 2, top - 2);
  b.figure().title = "Heads that still have a span of the text";
  return {std::move(b.figure()), tidy_heads(panels, o), describe_fact(panels, o)};
}

}  // namespace kvscope::views
