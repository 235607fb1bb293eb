// The presets: recipes without a trace or study; what each draws is in its title, what it needs in
// docs/reference/figures.md.
#include <algorithm>

#include "engine/core/support/error.h"
#include "views/figure/recipe.h"

namespace kvscope::views {
namespace {

constexpr const char *kColumn = "icml:column", *kWide = "neurips";
// WG-KV's axis; studies made before it was measured have density alone.
constexpr std::string_view kCacheSize = "cache_size|density";

FigureRecipe recipe_of(std::string venue, FigureOptions options) {
  FigureRecipe recipe;
  recipe.venue = std::move(venue);
  recipe.options = std::move(options);
  return recipe;
}

FigurePreset of_study(std::string_view name, std::string_view title, std::string venue, FigureOptions options) {
  return {name, title, recipe_of(std::move(venue), std::move(options)), 0};
}

LayerHeadMapOptions map_of(Metric metric, Colormap colormap, Aggregate aggregate = Aggregate::median) {
  LayerHeadMapOptions options;
  options.metric = metric;
  options.colormap = colormap;
  options.aggregate = aggregate;
  options.fit = metric == Metric::output_error;  // a few per cent, mostly
  return options;
}

std::vector<FigurePreset> of_runs() {
  TokenStripOptions long_strip;
  long_strip.count = 336;
  CurvesOptions cached;
  cached.quantity = RunQuantity::cached;
  MetricByLayerOptions output_error;
  output_error.metric = Metric::output_error;
  output_error.fit = true;
  MapPanelsOptions spread, two_tasks;
  spread.panels = MapPanels::spread;
  two_tasks.metric = Metric::cache_share;
  return {
      {"kvpop-fig6", "Token strip: KV heads keeping each of the last 112 evictable tokens (KVpop Fig. 6)",
       recipe_of(kWide, TokenStripOptions{})},
      {"kvpop-fig7", "Recall of the oracle's choice by layer, over KV heads and runs (KVpop Fig. 7)",
       recipe_of(kWide, MetricByLayerOptions{})},
      {"kvpop-fig8", "Evict ratio of each layer and KV head, median over the runs (KVpop Fig. 8)",
       recipe_of(kWide, map_of(Metric::evict_ratio, Colormap::cividis))},
      {"kvpop-fig9", "Token strip in lines: the last 336 evictable tokens of a run (KVpop Fig. 9)",
       recipe_of(kWide, long_strip)},
      {"spkv-fig4", "Density of each layer and KV head, mean over the runs (SP-KV Fig. 4, left)",
       recipe_of(kColumn, map_of(Metric::density, Colormap::viridis, Aggregate::mean))},
      {"wgkv-fig13", "Share of the cache that each head holds, window included (WG-KV Fig. 13)",
       recipe_of(kWide, map_of(Metric::cache_share, Colormap::viridis))},
      {"wgkv-fig13-tasks", "Share of the cache by head in two tasks, A | B | B - A on one scale (WG-KV Fig. 13, both)",
       recipe_of(kWide, two_tasks), 2},
      {"wgkv-fig3", "Attention that one token gets from every later query, in one head (WG-KV Fig. 3)",
       recipe_of(kColumn, TokenAttentionOptions{}), 0},
      {"density-spread", "Density of each layer and KV head: mean and standard deviation over many prompts",
       recipe_of(kWide, spread), 2},
      {"recall-map", "Recall of the oracle's choice by layer and KV head",
       recipe_of(kColumn, map_of(Metric::recall, Colormap::cividis))},
      {"output-error-map", "Attention output error of each layer and KV head",
       recipe_of(kColumn, map_of(Metric::output_error, Colormap::cividis))},
      {"output-error-by-layer", "Attention output error by layer, over KV heads and runs",
       recipe_of(kWide, output_error)},
      {"cache-timeline", "One head's cache over time: lifelines and occupancy", recipe_of(kColumn, TimelineOptions{})},
      {"nll-curve", "Negative log-likelihood of the run's tokens by position", recipe_of(kColumn, CurvesOptions{})},
      {"cache-curve", "Tokens in the cache by position, over KV heads", recipe_of(kColumn, cached)},
      {"run-lifetimes", "How long one head keeps each token, and the oracle's verdict on each eviction",
       recipe_of(kColumn, LifetimesOptions{})},
      {"run-card", "What a policy did to a run, for a talk or a post: findings, text and map",
       recipe_of(kWide, RunCardOptions{})},
      {"run-fingerprints", "What each head keeps by token age, position or class, and one head in several runs",
       recipe_of(kWide, FingerprintOptions{})},
      {"run-difference", "Where the answers of two runs differ, and what each had lost where they diverge",
       recipe_of(kWide, AnswerDifferenceOptions{}), 2},
      {"methods-by-cache-size", "Runs of one prompt as small multiples: methods down, cache sizes across",
       recipe_of(kWide, RunGridOptions{})},
  };
}

StudyLinesOptions lines(std::string x, std::vector<std::string> y, std::string series) {
  StudyLinesOptions options;
  options.pick = {.x = std::move(x), .y = std::move(y), .series = std::move(series)};
  return options;
}

StudyBarsOptions bars(std::string x, std::vector<std::string> y, std::string series) {
  StudyBarsOptions options;
  options.pick = {.x = std::move(x), .y = std::move(y), .series = std::move(series)};
  return options;
}

/// Against length, with dense as a separate series: each length has its own reference.
StudyLinesOptions by_length(std::vector<std::string> y, std::string series) {
  StudyLinesOptions options = lines("prompt_tokens", std::move(y), std::move(series));
  options.pick.dense = "";
  options.log_x = options.zero = true;
  options.interval = IntervalMark::band;
  return options;
}

/// Of several curves of trainings: a line each.
StudyLinesOptions of_training(std::string x, std::vector<std::string> y) {
  StudyLinesOptions options = lines(std::move(x), std::move(y), "source");
  options.marks = false;
  return options;
}

StudyLinesOptions by_task(std::string x, bool log_x) {
  StudyLinesOptions options = lines(std::move(x), {"accuracy"}, "method");
  options.pick.panel = "item";
  options.log_x = log_x;
  options.zero = true;
  return options;
}

std::vector<FigurePreset> of_studies() {
  const std::string prefill = "attention_s+rest_s|seconds|", decode = "attention_ms+rest_ms|ms_per_step|";
  StudyBarsOptions lengths = bars("prompt_tokens", {prefill, decode, "peak_bytes"}, "method"), bottleneck = lengths;
  bottleneck.pick.y = {prefill, decode, "cache_bytes+weight_bytes"};
  bottleneck.pick.where = {"method=full"};
  for (StudyBarsOptions* options : {&lengths, &bottleneck}) options->pick.dense = "", options->values = false;
  StudyBarsOptions strategies = bars("strategy", {"coverage", "nll_difference"}, "share");
  strategies.pick.where = {"strategy!=local"};
  StudyLinesOptions turnover = lines("share", {"turnover_again", "turnover_pieces"}, "strategy"), allocation = turnover;
  turnover.pick.combine = allocation.pick.combine = "share";
  turnover.zero = true;
  allocation.pick.y = {"nll_difference"};
  for (StudyPick* pick : {&turnover.pick, &allocation.pick, &strategies.pick}) pick->dense = "strategy=dense";
  StudyLinesOptions combinations = by_task(std::string(kCacheSize), false);
  combinations.pick.series = "curve|policy";  // what differs in more than one parameter is no line
  StudyLinesOptions gates = lines("density", {"nll_difference"}, "curve|source"), gates_by_size = gates;
  gates_by_size.pick.x = kCacheSize;
  gates_by_size.pick.y = {"loss_output|nll_difference"};  // of a training's thresholds, or of evals of its gates
  StudyLinesOptions reads = by_task("axis_read|read", true);
  reads.pick.front = reads.pick.knee = "";  // a study's front is against the size of the cache
  ScalingFitOptions scaling;
  scaling.fit = {"train_flops<1e22"};  // as in the paper: its models of 7 billion show how far the law reaches
  return {
      of_study("kvpop-fig4", "Time per token and peak memory against length (KVpop Fig. 4)", kWide,
               by_length({"ms_per_step", "peak_bytes"}, "method")),
      of_study("kvpop-fig5", "Token accuracy during training, with and without delay (KVpop Fig. 5)", kColumn,
               of_training("step", {"token_accuracy|loss_boundary"})),
      of_study("spkv-fig2", "NLL against training compute, with the law that fits it (SP-KV Fig. 2)", kColumn, scaling),
      of_study("spkv-fig3", "NLL against density under a threshold sweep, Pareto front (SP-KV Fig. 3, left)", kColumn,
               lines("density", {"nll_difference"}, "method")),
      of_study("spkv-fig3-latency", "Time per token against length, one line per policy (SP-KV Fig. 3, right)", kColumn,
               by_length({"ms_per_step"}, "policy")),
      of_study("spkv-fig4-strategies", "Coverage and NLL of strategies for global heads (SP-KV Fig. 4, right)", kWide,
               strategies),
      of_study("spkv-fig5", "Share kept by each head during gate training: median, quartiles, all heads (SP-KV Fig. 5)",
               kColumn, ColumnSpreadOptions{}),
      of_study("spkv-fig6", "NLL against density: thresholds along a line, one line per gate (SP-KV Fig. 6)", kColumn,
               gates),
      of_study("spkv-fig7", "FLOPs of a decoded token by size of the model, full and sparse attention (SP-KV Fig. 7)",
               kWide, DecodeFlopsOptions{}),
      of_study("spkv-fig8", "Loss and mean utility during training, one line per training (SP-KV Fig. 8)", kWide,
               of_training("step", {"loss_output", "gate_mean"})),
      of_study("wgkv-fig1", "Prefill, time per token and memory of the full cache by length (WG-KV Fig. 1)", kWide,
               bottleneck),
      of_study("wgkv-fig7", "Accuracy against cache size, one panel per task (WG-KV Fig. 7)", kWide,
               by_task(std::string(kCacheSize), false)),
      of_study("wgkv-fig8", "Prefill or time per token, and peak memory, at each length (WG-KV Fig. 8)", kWide,
               lengths),
      of_study("wgkv-fig9", "Accuracy against tokens read per query, with and without a gate (WG-KV Fig. 9)", kWide,
               reads),
      of_study("wgkv-fig10", "Accuracy against cache size: admission, eviction, both (WG-KV Fig. 10)", kWide,
               combinations),
      of_study("wgkv-fig11", "Distillation loss against cache size over gates and thresholds (WG-KV Fig. 11)", kColumn,
               gates_by_size),
      of_study("wgkv-fig12", "Distillation loss against cache size, with and without a local cache (WG-KV Fig. 12)",
               kColumn, gates_by_size),
      of_study("wgkv-fig16", "Accuracy, cache size and evictions triggered, by combination (WG-KV Fig. 16)", kWide,
               bars("policy", {"accuracy", std::string(kCacheSize), "overflows|triggers|"}, "item")),
      of_study("gates-in-training", "Scores of a held-out text while a gate trains: heads, layers over steps, the text",
               kWide, GateTrainingOptions{}),
      of_study("hybrid-nll", "NLL of a hybrid against its share of global heads, one line per strategy", kColumn,
               allocation),
      of_study("hybrid-turnover", "Heads that change when ranked again under the hybrid, or on another piece", kWide,
               turnover),
  };
}

std::vector<FigurePreset> make_presets() {
  std::vector<FigurePreset> presets = of_runs();
  for (FigurePreset& preset : of_studies()) presets.push_back(std::move(preset));
  return presets;
}

}  // namespace

std::span<const FigurePreset> figure_presets() {
  static const std::vector<FigurePreset> presets = make_presets();
  return presets;
}

FigureRecipe preset_recipe(std::string_view name) {
  const auto presets = figure_presets();
  const auto it = std::ranges::find(presets, name, &FigurePreset::name);
  if (it != presets.end()) return it->recipe;
  std::string all;
  for (const FigurePreset& p : presets) all += (all.empty() ? "" : ", ") + std::string(p.name);
  throw Error({ExitCode::usage, "", "preset", "\"" + std::string(name) + "\"", "one of " + all, ""});
}

}  // namespace kvscope::views
