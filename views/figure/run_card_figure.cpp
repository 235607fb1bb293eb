#include "views/figure/run_card_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/eviction_headline.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/run_measures.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kHeightOfWidth = 0.525, kTextShare = 0.66;  // of the width: pictures in a post, the text's part
constexpr double kLinePitch = 1.75, kGap = 1.2;              // in sizes of the letters; points between tokens

/// A token of the text, and what became of it.
struct CardToken {
  std::int32_t t = 0;
  std::string label;
  int kept = 0, heads = 0, wrong = 0;
  double width = 0;
};

std::vector<CardToken> tokens_of(const RunRecord& run, std::int32_t q, double size) {
  const auto verdicts = eviction_verdicts(run);
  std::vector<CardToken> tokens;
  for (std::int32_t t = 0; t <= std::min(q, run.n_tokens() - 1); ++t) {
    CardToken token{.t = t, .label = token_label(run.pieces[static_cast<std::size_t>(t)], 24)};
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        if (run.is_local_by_model(layer, head)) continue;
        ++token.heads;
        token.kept += visible(q, t, lifetime_of(run, layer, head, t));
        const auto flat = static_cast<std::size_t>(layer) * run.model.n_kv_heads + head;
        if (flat < verdicts.size() && static_cast<std::size_t>(t) < verdicts[flat].size())
          token.wrong += verdicts[flat][static_cast<std::size_t>(t)].verdict == EvictionVerdict::wrong;
      }
    }
    token.width = text_width(token.label, FontRole::mono, size) + 2;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// [begin, end) of the tokens of each line.
std::vector<std::pair<std::size_t, std::size_t>> lines_of(const std::vector<CardToken>& tokens, double width) {
  std::vector<std::pair<std::size_t, std::size_t>> lines;
  double x = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (lines.empty() || x + tokens[i].width > width) lines.emplace_back(i, i), x = 0;
    lines.back().second = i + 1;
    x += tokens[i].width + kGap;
  }
  return lines;
}

std::vector<std::string> findings(const RunRecord& run, const std::optional<EvictionHeadline>& headline) {
  if (!headline)
    return {run.future_mass.empty() ? "No oracle: the evictions are not judged." : "No eviction to judge."};
  std::vector<std::string> lines = {wrong_share_text(*headline) + " of evictions were wrong"};
  if (headline->worst)
    lines.push_back("Worst head: layer " + std::to_string(headline->worst->layer) + ", KV head " +
                    std::to_string(headline->worst->kv_head) + " (" + std::to_string(headline->worst->wrong) + " of " +
                    std::to_string(headline->worst->judged) + ")");
  if (const auto& lost = headline->costliest)
    lines.push_back("Costliest lost token: " + token_label(run.pieces[static_cast<std::size_t>(lost->t)], 24) + " (" +
                    std::to_string(lost->n_heads) + (lost->n_heads == 1 ? " head)" : " heads)"));
  return lines;
}

std::string facts(const RunRecord& run) {
  const RunMeasures measures = measure_run(run);
  std::string text = std::to_string(run.n_tokens()) + " tokens";
  const auto add = [&](RunMeasure measure, const char* name) {
    if (!std::isnan(measures[measure])) text += " · " + std::string(name) + " " + format_number(measures[measure]);
  };
  add(RunMeasure::cache_size, "cache size");
  add(RunMeasure::cache_size_end, "at the end");
  add(RunMeasure::nll_answer, "NLL of the answer");
  add(RunMeasure::above_chance, "recall above chance");
  return text;
}

void draw_token(FigureBuilder& b, const CardToken& token, Point at, double size, double height) {
  const FigureStyle& s = b.style();
  const double share = token.heads > 0 ? static_cast<double>(token.kept) / token.heads : 1;
  const Colour colour = share_colour(share, s.dark);
  b.add(FillBox{{at.x, at.y, token.width, height}, colour, 1.5});
  b.text(token.label, {at.x + 1, at.y + height / 2}, size, ink_on(colour), Anchor::start, Baseline::middle, 0,
         FontRole::mono);
  if (token.wrong > 0) {
    const double y = at.y + height + 1;
    b.line({at.x, y}, {at.x + token.width * token.wrong / token.heads, y},
           eviction_colour(EvictionVerdict::wrong, s.dark), 1.4);
  }
}

/// -> the tokens that have a place in the box.
std::vector<CardToken> draw_text(FigureBuilder& b, const Box& box, const std::vector<CardToken>& tokens,
                                 std::int32_t centre, double size) {
  const double pitch = size * kLinePitch;
  const auto lines = lines_of(tokens, box.w);
  const auto room = static_cast<std::size_t>(std::max(1.0, std::floor(box.h / pitch)));
  std::size_t first = 0;
  if (lines.size() > room) {
    const auto at = std::ranges::find_if(lines, [&](const auto& line) {
      return centre >= 0 && tokens[line.first].t <= centre && centre <= tokens[line.second - 1].t;
    });
    const std::size_t middle = at == lines.end() ? 0 : static_cast<std::size_t>(at - lines.begin());
    first = std::min(middle - std::min(middle, room / 2), lines.size() - room);
  }
  std::vector<CardToken> shown;
  for (std::size_t i = first; i < std::min(lines.size(), first + room); ++i) {
    double x = box.x;
    for (std::size_t k = lines[i].first; k < lines[i].second; ++k) {
      draw_token(b, tokens[k], {x, box.y + static_cast<double>(i - first) * pitch}, size, size * 1.35);
      x += tokens[k].width + kGap;
      shown.push_back(tokens[k]);
    }
  }
  b.figure().panels.push_back({"text", box, 0, 0});
  return shown;
}

FigureData tidy(const RunRecord& run, const std::vector<CardToken>& shown) {
  std::vector<std::int64_t> position, id, kept, heads;
  std::vector<std::string> token;
  std::vector<double> wrong;
  for (const CardToken& one : shown) {
    position.push_back(one.t), id.push_back(run.ids[static_cast<std::size_t>(one.t)]), token.push_back(one.label);
    kept.push_back(one.kept), heads.push_back(one.heads);
    wrong.push_back(run.future_mass.empty() ? std::nan("") : one.wrong);
  }
  return {{{"position", position},
           {"token_id", id},
           {"token", token},
           {"kept_heads", kept},
           {"heads", heads},
           {"wrong_heads", wrong}}};
}

std::vector<LegendEntry> legend_of(const RunRecord& run, bool dark) {
  std::vector<LegendEntry> entries = {{LegendEntry::Mark::swatch, "all heads keep it", share_colour(1, dark)},
                                      {LegendEntry::Mark::swatch, "half", share_colour(0.5, dark)},
                                      {LegendEntry::Mark::swatch, "none", share_colour(0, dark)}};
  if (!run.future_mass.empty())
    entries.push_back({LegendEntry::Mark::curve, "share of heads that evicted it although the oracle keeps it",
                       eviction_colour(EvictionVerdict::wrong, dark)});
  return entries;
}

Metric metric_of(const RunRecord& run, const RunCardOptions& o) {
  return metric_info(o.metric).needs_oracle && run.future_mass.empty() ? Metric::density : o.metric;
}

/// The map with its metric's name above it, and the scale at its right.
void draw_map(FigureBuilder& b, const RunRecord& run, const Box& room, const RunCardOptions& o, std::int32_t q) {
  const FigureStyle& s = b.style();
  const Metric metric = metric_of(run, o);
  const HeadMap map = head_metric(run, metric, q);
  ColourScale scale{o.colormap, 0, 1, 0, std::string(metric_info(metric).title)};
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const float v : map.values)
    if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
  if ((o.fit || !metric_info(metric).is_share) && hi > lo) scale.lo = lo, scale.hi = hi;
  const double left = text_width("00", FontRole::text, s.tick_size) + s.label_size + 8,
               below = s.tick_size + s.label_size + 8;
  const double bar = b.colour_bar_width(scale, room.h - below);
  const Box box{room.x + left, room.y, std::max(10.0, room.w - left - bar - 6), std::max(10.0, room.h - below)};
  draw_head_map(b, "map", box, map, scale, {.values = false});
  b.colour_bar({box.right() + 5, box.y, 6, box.h}, scale);
}

std::string describe(const RunRecord& run, const RunCardOptions& o, std::int32_t q) {
  const MetricInfo& info = metric_info(metric_of(run, o));
  return "What the policy did to this run, at query " + std::to_string(q) +
         ". Colour of a token: share of KV heads that keep it. Red part of the line below it: share of heads that evicted "
         "it although the run's own oracle keeps it. Map: " +
         std::string(info.title) + ", " + std::string(info.definition) + ". " + describe_run(run) +
         describe_preview(o.preview);
}

}  // namespace

BuiltFigure run_card_figure(const RunRecord& run, const RunCardOptions& o, const FigureStyle& s) {
  const std::int32_t q = resolve_query(run, o.q);
  const double width = s.width, height = s.height > 0 ? s.height : width * kHeightOfWidth, margin = s.label_size;
  FigureBuilder b(width, height, s);
  const double title = s.label_size * 1.25, inner = width - 2 * margin;
  double y = margin;
  b.text(shortened(run.policy.brief(), FontRole::bold, title, inner * 0.68), {margin, y}, title, s.ink, Anchor::start,
         Baseline::top, 0, FontRole::bold);
  b.text(shortened(run.model.name, FontRole::text, s.label_size, inner * 0.28), {width - margin, y}, s.label_size,
         s.muted, Anchor::end, Baseline::top);
  y += title * 1.7;
  const auto headline = eviction_headline(run);
  for (const std::string& line : findings(run, headline)) {
    b.text(shortened(line, FontRole::text, title, inner), {margin, y}, title, s.ink, Anchor::start, Baseline::top);
    y += title * 1.45;
  }
  b.text(shortened(facts(run), FontRole::text, s.tick_size, inner), {margin, y}, s.tick_size, s.muted, Anchor::start,
         Baseline::top);
  y += s.tick_size * 2.2;

  const double text = inner * kTextShare - margin, bottom = height - margin;
  FigureBuilder measure(width, 0, s);
  const double legend = measure.legend({0, 0}, text, legend_of(run, s.dark), true);
  const Box words{margin, y, text, bottom - y - legend - 4};
  if (words.h < s.tick_size * kLinePitch)
    throw Error({ExitCode::bad_input, "", "run_card", "no room for the text", "a larger figure", ""});
  const std::int32_t centre = headline && headline->costliest ? headline->costliest->t : -1;
  const std::vector<CardToken> shown = draw_text(b, words, tokens_of(run, q, s.tick_size), centre, s.tick_size);
  b.legend({margin, bottom - legend}, text, legend_of(run, s.dark));
  const Box room{margin + inner * kTextShare, y, inner * (1 - kTextShare), bottom - y};
  draw_map(b, run, room, o, q);
  if (o.preview) {
    b.preview_frame(words);
    b.preview_badge(width - margin, y - 2);
  }
  b.figure().title = "What a policy did to a run";
  return {std::move(b.figure()), tidy(run, shown), describe(run, o, q)};
}

}  // namespace kvscope::views
