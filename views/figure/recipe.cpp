#include "views/figure/recipe.h"

#include <algorithm>
#include <set>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::views {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFigures[] = {"layer_head_map", "token_strip", "timeline", "metric_by_layer", "curves"};
constexpr std::string_view kAggregates[] = {"median", "mean", "min", "max"};
constexpr std::string_view kColours[] = {"state", "score", "kept_heads", "oracle"};
constexpr std::string_view kCompares[] = {"none", "side_by_side", "difference"};
constexpr std::string_view kQuantities[] = {"nll", "cached", "density", "recall", "output_error"};

/// Functions as overloads of one: a kind of options without a figure does not compile.
template <typename... Functions>
struct OneOf : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
OneOf(Functions...) -> OneOf<Functions...>;  // clang 16 makes none for an aggregate

template <typename List>
std::string join(const List& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

[[noreturn]] void refuse(const std::string& file, std::string_view key, const std::string& found,
                         const std::string& expected) {
  throw Error({ExitCode::bad_input, file, std::string(key), found, expected, ""});
}

/// The fields of each options struct, said once: read, written and listed from here.
template <typename V>
void visit_fields(LayerHeadMapOptions& o, V& v) {
  v("metric", o.metric);
  v("q", o.q);
  v.choice("aggregate", o.aggregate, kAggregates);
  v.choice("compare", o.compare, kCompares);
  if (V::kReads || o.compare != MapCompare::none) v("common_oracle", o.common_oracle);
  v("colormap", o.colormap);
  v("lo", o.lo);
  v("hi", o.hi);
  v("fit", o.fit);
  v("values", o.values);
  v("marginal", o.marginal);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
  v("layer_zero_on_top", o.layer_zero_on_top);
}
template <typename V>
void visit_fields(TokenStripOptions& o, V& v) {
  v("q", o.q);
  v("count", o.count);
  v("first", o.first);
  v("evictable_only", o.evictable_only);
  v("layer", o.layer);
  v("colormap", o.colormap);
  v("bands", o.bands);
  v("labels", o.labels);
  v("preview", o.preview);
  // What only a strip of heads has is written for those that use it.
  if (!V::kReads && o.kv_head < 0 && o.colour == ColourMode::state) return;
  v("kv_head", o.kv_head);
  v.choice("colour", o.colour, kColours);
  v("with_b", o.with_b);
  v("preview_b", o.preview_b);
}
template <typename V>
void visit_fields(TimelineOptions& o, V& v) {
  v("layer", o.layer);
  v("kv_head", o.kv_head);
  v("occupancy", o.occupancy);
  v("preview", o.preview);
  // A part of the run is written where one is shown.
  if (V::kReads || o.count > 0) v("first", o.first), v("count", o.count);
  if (V::kReads || o.token_count > 0) v("token_first", o.token_first), v("token_count", o.token_count);
}

template <typename V>
void visit_fields(MetricByLayerOptions& o, V& v) {
  v("metric", o.metric);
  v("q", o.q);
  v("with_b", o.with_b);
  v("common_oracle", o.common_oracle);
  v("chance", o.chance);
  v("lo", o.lo);
  v("hi", o.hi);
  v("fit", o.fit);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
}
template <typename V>
void visit_fields(CurvesOptions& o, V& v) {
  v.choice("quantity", o.quantity, kQuantities);
  v("points", o.points);
  v.choice("compare", o.compare, kCompares);
  v("band", o.band);
  v("preview", o.preview);
  v("preview_b", o.preview_b);
  v("name_a", o.name_a);
  v("name_b", o.name_b);
}

class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(const json& object, const std::string& file) : raw_(object), object_(object, file), file_(file) {}

  void operator()(std::string_view key, int& value) {
    if (use(key)) value = static_cast<int>(object_.integer(key, -1, INT32_MAX));
  }
  void operator()(std::string_view key, double& value) {
    if (use(key)) value = object_.number(key, -1e9, 1e9);
  }
  void operator()(std::string_view key, bool& value) {
    if (use(key)) value = object_.boolean_or(key, value);
  }
  void operator()(std::string_view key, std::string& value) {
    if (use(key)) value = object_.text(key);
  }
  void operator()(std::string_view key, Metric& value) {
    if (!use(key)) return;
    const std::string name = object_.text(key);
    const MetricInfo* info = find_metric(name);
    if (info == nullptr) {
      std::vector<std::string_view> names;
      for (const MetricInfo& m : metric_list()) names.push_back(m.name);
      refuse(file_, key, "\"" + name + "\"", "one of " + join(names));
    }
    value = info->metric;
  }
  void operator()(std::string_view key, Colormap& value) {
    if (use(key)) value = parse_colormap(object_.text(key));
  }
  template <typename E, std::size_t N>
  void choice(std::string_view key, E& value, const std::string_view (&names)[N]) {
    if (!use(key)) return;
    const std::string name = object_.text(key);
    for (std::size_t i = 0; i < N; ++i) {
      if (names[i] == name) {
        value = static_cast<E>(i);
        return;
      }
    }
    refuse(file_, key, "\"" + name + "\"", "one of " + join(names));
  }
  void strings(std::string_view key, std::vector<std::string>& values) {
    if (!use(key)) return;
    const json& list = raw_.at(std::string(key));
    if (!list.is_array() || list.empty()) refuse(file_, key, list.dump(), "a list of paths");
    values.clear();
    for (const json& item : list) {
      if (!item.is_string()) refuse(file_, key, item.dump(), "a list of paths");
      values.push_back(item.get<std::string>());
    }
  }
  /// Marks a key as one of this figure's; true if it is given.
  bool use(std::string_view key) {
    known_.emplace(key);
    return object_.has(key);
  }
  void refuse_unknown_keys() const {
    for (const auto& [key, value] : raw_.items()) {
      if (!known_.contains(key)) refuse(file_, key, "a key that this figure does not have", "one of " + join(known_));
    }
  }

 private:
  const json& raw_;
  JsonObject object_;
  std::string file_;
  std::set<std::string, std::less<>> known_;
};

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(ordered_json& out) : out_(out) {}
  void operator()(std::string_view key, Metric value) { out_[std::string(key)] = metric_info(value).name; }
  void operator()(std::string_view key, Colormap value) { out_[std::string(key)] = to_string(value); }
  template <typename T>
  void operator()(std::string_view key, const T& value) {
    out_[std::string(key)] = value;
  }
  template <typename E, std::size_t N>
  void choice(std::string_view key, E value, const std::string_view (&names)[N]) {
    out_[std::string(key)] = names[static_cast<std::size_t>(value)];
  }

 private:
  ordered_json& out_;
};

static_assert(std::size(kFigures) == std::variant_size_v<FigureOptions>, "a name for each, in the same order");

template <std::size_t I = 0>
FigureOptions default_options(std::string_view figure, const std::string& file) {
  if constexpr (I < std::size(kFigures)) {
    return figure == kFigures[I] ? FigureOptions(std::in_place_index<I>) : default_options<I + 1>(figure, file);
  } else {
    refuse(file, "figure", "\"" + std::string(figure) + "\"", "one of " + join(kFigures));
  }
}

void check_ranges(const FigureRecipe& r, const std::string& file) {
  if (r.width_mm != 0 && !(r.width_mm >= 15 && r.width_mm <= 2000))
    refuse(file, "width_mm", std::to_string(r.width_mm), "15 to 2000, or 0 for the venue's");
  if (r.height_mm != 0 && !(r.height_mm >= 10 && r.height_mm <= 2000))
    refuse(file, "height_mm", std::to_string(r.height_mm), "10 to 2000, or 0 for what the content wants");
  if (!(r.dpi >= 36 && r.dpi <= 2400)) refuse(file, "dpi", std::to_string(r.dpi), "36 to 2400");
  const auto check_scale = [&](const auto* o) {
    if (o && !(o->hi > o->lo)) refuse(file, "hi", std::to_string(o->hi), "more than lo = " + std::to_string(o->lo));
  };
  check_scale(std::get_if<LayerHeadMapOptions>(&r.options));
  check_scale(std::get_if<MetricByLayerOptions>(&r.options));
  if (const auto* curves = std::get_if<CurvesOptions>(&r.options);
      curves && (curves->points < 2 || curves->points > kMaxCurvePoints))
    refuse(file, "points", std::to_string(curves->points), "2 to " + std::to_string(kMaxCurvePoints));
  if (const auto* strip = std::get_if<TokenStripOptions>(&r.options)) {
    if (strip->count < 1 || strip->count > kMaxStripTokens)
      refuse(file, "count", std::to_string(strip->count), "1 to " + std::to_string(kMaxStripTokens));
    if (strip->bands < 0 || strip->bands > 64) refuse(file, "bands", std::to_string(strip->bands), "0 to 64");
  }
}

// The presets: a recipe without a trace; what it draws is in its title.

FigureRecipe recipe_of(std::string venue, FigureOptions options) {
  FigureRecipe recipe;
  recipe.venue = std::move(venue);
  recipe.options = std::move(options);
  return recipe;
}

LayerHeadMapOptions map_of(Metric metric, Colormap colormap) {
  LayerHeadMapOptions options;
  options.metric = metric;
  options.colormap = colormap;
  return options;
}

std::vector<FigurePreset> make_presets() {
  return {
      {"kvpop-fig6", "Token strip: KV heads retaining each of the last 112 evictable tokens (KVpop Fig. 6)",
       recipe_of("neurips", TokenStripOptions{})},
      {"kvpop-fig8", "Evict ratio of each layer and KV head, median over the runs (KVpop Fig. 8)",
       recipe_of("neurips", map_of(Metric::evict_ratio, Colormap::cividis))},
      {"spkv-fig4", "Density of each layer and KV head, mean over the runs (SP-KV Fig. 4, left)",
       [] {
         LayerHeadMapOptions options = map_of(Metric::density, Colormap::viridis);
         options.aggregate = Aggregate::mean;
         return recipe_of("icml:column", options);
       }()},
      {"wgkv-fig13", "Share of the cache that each head holds, window included (WG-KV Fig. 13)",
       recipe_of("neurips", map_of(Metric::cache_share, Colormap::viridis))},
      {"recall-map", "Recall of the oracle's choice by layer and KV head",
       recipe_of("icml:column", map_of(Metric::recall, Colormap::cividis))},
      {"output-error-map", "What eviction did to the attention output of each layer and KV head",
       [] {
         LayerHeadMapOptions options = map_of(Metric::output_error, Colormap::cividis);
         options.fit = true;  // a few per cent, mostly
         return recipe_of("icml:column", options);
       }()},
      {"cache-timeline", "One head's cache over time: lifelines and occupancy",
       recipe_of("icml:column", TimelineOptions{})},
      {"kvpop-fig7", "Recall of the oracle's choice by layer, over KV heads and runs (KVpop Fig. 7)",
       recipe_of("neurips", MetricByLayerOptions{})},
      {"nll-curve", "Negative log-likelihood of the run's tokens by position",
       recipe_of("icml:column", CurvesOptions{})},
      {"cache-curve", "Tokens in the cache by position, over KV heads",
       [] {
         CurvesOptions options;
         options.quantity = RunQuantity::cached;
         return recipe_of("icml:column", options);
       }()},
  };
}

}  // namespace

std::span<const FigurePreset> figure_presets() {
  static const std::vector<FigurePreset> presets = make_presets();
  return presets;
}

FigureRecipe preset_recipe(std::string_view name) {
  const auto presets = figure_presets();
  const auto it = std::find_if(presets.begin(), presets.end(), [&](const FigurePreset& p) { return p.name == name; });
  if (it != presets.end()) return it->recipe;
  std::vector<std::string_view> names;
  for (const FigurePreset& p : presets) names.push_back(p.name);
  throw Error({ExitCode::usage, "", "preset", "\"" + std::string(name) + "\"", "one of " + join(names), ""});
}

std::string_view figure_name(const FigureOptions& options) { return kFigures[options.index()]; }

FigureStyle FigureRecipe::style() const {
  FigureStyle style = venue.empty() ? FigureStyle{} : venue_style(venue);
  if (width_mm > 0) style.width = width_mm * kPointsPerMm;
  if (height_mm > 0) style.height = height_mm * kPointsPerMm;
  return style;
}

FigureRecipe parse_recipe(const json& root, const std::string& file) {
  if (!root.is_object()) refuse(file, "", "JSON that is no object", R"({"figure": ..., "trace": ...})");
  Reader read(root, file);
  FigureRecipe recipe;
  std::string preset, figure, trace;
  read("preset", preset);
  read("figure", figure);
  if (!preset.empty()) recipe = preset_recipe(preset);
  if (preset.empty() && figure.empty()) refuse(file, "figure", "missing", "one of " + join(kFigures) + ", or a preset");
  if (!figure.empty() && (preset.empty() || figure != figure_name(recipe.options)))
    recipe.options = default_options(figure, file);

  read("trace", trace);
  if (!trace.empty()) recipe.traces = {trace};
  read.strings("traces", recipe.traces);
  read("run", recipe.run);
  read("venue", recipe.venue);
  read("width_mm", recipe.width_mm);
  read("height_mm", recipe.height_mm);
  read("dpi", recipe.dpi);
  std::visit([&](auto& options) { visit_fields(options, read); }, recipe.options);
  for (std::string_view note : {"caption", "definition", "program"}) read.use(note);  // what an export adds for people
  read.refuse_unknown_keys();
  check_ranges(recipe, file);
  recipe.style();  // refuses an unknown venue here, not when the figure is made
  return recipe;
}

ordered_json to_json(const FigureRecipe& recipe) {
  ordered_json out;
  out["figure"] = figure_name(recipe.options);
  if (!recipe.traces.empty()) out["traces"] = recipe.traces;
  out["run"] = recipe.run;
  out["venue"] = recipe.venue;
  out["width_mm"] = recipe.width_mm;
  out["height_mm"] = recipe.height_mm;
  out["dpi"] = recipe.dpi;
  Writer write(out);
  FigureOptions options = recipe.options;
  std::visit([&](auto& o) { visit_fields(o, write); }, options);
  return out;
}

BuiltFigure build_figure(const FigureRecipe& recipe, std::span<const RunRecord* const> runs) {
  if (runs.empty())
    throw Error({ExitCode::bad_input, "", std::string(figure_name(recipe.options)), "no run", "at least one", ""});
  const FigureStyle style = recipe.style();
  const RunRecord& run = *runs[0];
  return std::visit(OneOf{
                        [&](const LayerHeadMapOptions& map) { return layer_head_map_figure(runs, map, style); },
                        [&](const TokenStripOptions& strip) {
                          return token_strip_figure(run, strip, style, runs.size() > 1 ? runs[1] : nullptr);
                        },
                        [&](const TimelineOptions& timeline) { return timeline_figure(run, timeline, style); },
                        [&](const MetricByLayerOptions& metric) { return metric_by_layer_figure(runs, metric, style); },
                        [&](const CurvesOptions& curves) { return curves_figure(runs, curves, style); },
                    },
                    recipe.options);
}

}  // namespace kvscope::views
