#include "views/figure/recipe.h"

#include <algorithm>
#include <set>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "views/figure/attention_json.h"
#include "views/figure/recipe_fields.h"
#include "views/figure/unseen_json.h"

namespace kvscope::views {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFigures[] = {
    "layer_head_map", "token_strip",       "timeline",   "metric_by_layer", "curves",
    "map_panels",     "study_lines",       "study_bars", "column_spread",   "token_attention",
    "decode_flops",   "scaling_fit",       "lost_fact",  "run_points",      "run_card",
    "fingerprints",   "answer_difference", "lifetimes",  "unseen_tokens",   "run_grid",
    "gate_training"};

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

class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(const json& object, const std::string& file) : raw_(object), object_(object, file), file_(file) {}

  void operator()(std::string_view key, int& value) {
    if (use(key)) value = static_cast<int>(object_.integer(key, -1, INT32_MAX));
  }
  void operator()(std::string_view key, std::vector<int>& values) {
    if (!use(key)) return;
    values.clear();
    for (const json& item : raw_.at(std::string(key))) {
      if (!item.is_number_integer() || item < 0 || item > INT32_MAX)
        refuse(file_, key, item.dump(), "a list of runs, from 0");
      values.push_back(item.get<int>());
    }
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
  void operator()(std::string_view key, HeadSet& value) {
    if (use(key)) value = parse_heads(object_.text(key), file_, std::string(key));
  }
  void operator()(std::string_view key, ScaleClip& value) {
    if (!use(key)) return;
    const json& pair = raw_.at(std::string(key));
    const bool two = pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number();
    if (two) value = {true, pair[0].get<double>(), pair[1].get<double>()};
    if (!two || !(value.hi > value.lo) || !(value.lo > -1e9 && value.hi < 1e9))
      refuse(file_, key, pair.dump(), "two numbers, the smaller first");
  }
  void operator()(std::string_view key, std::shared_ptr<const TokenAttention>& value) {
    if (use(key)) value = parse_attention(raw_.at(std::string(key)), file_, std::string(key));
  }
  void operator()(std::string_view key, std::shared_ptr<const UnseenAttention>& value) {
    if (use(key)) value = parse_unseen(raw_.at(std::string(key)), file_, std::string(key));
  }
  /// A list, or one text in its place.
  void operator()(std::string_view key, std::vector<std::string>& values) {
    if (use(key)) values = raw_.at(std::string(key)).is_string() ? std::vector{object_.text(key)} : texts(key);
  }
  /// A list that is not empty.
  void strings(std::string_view key, std::vector<std::string>& values) {
    if (!use(key)) return;
    values = texts(key);
    if (values.empty()) refuse(file_, key, "[]", "a list of paths");
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
  std::vector<std::string> texts(std::string_view key) const {
    const json& list = raw_.at(std::string(key));
    if (!list.is_array()) refuse(file_, key, list.dump(), "a list of texts");
    std::vector<std::string> values;
    for (const json& item : list) {
      if (!item.is_string()) refuse(file_, key, item.dump(), "a list of texts");
      values.push_back(item.get<std::string>());
    }
    return values;
  }
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
  void operator()(std::string_view key, const HeadSet& value) { out_[std::string(key)] = to_text(value); }
  void operator()(std::string_view key, const ScaleClip& value) { out_[std::string(key)] = {value.lo, value.hi}; }
  void operator()(std::string_view key, const std::shared_ptr<const TokenAttention>& value) {
    if (value) out_[std::string(key)] = to_json(*value);
  }
  void operator()(std::string_view key, const std::shared_ptr<const UnseenAttention>& value) {
    if (value) out_[std::string(key)] = to_json(*value);
  }
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
    refuse(file, "height_mm", std::to_string(r.height_mm), "10 to 2000, or 0 to fit the content");
  if (!(r.dpi >= 36 && r.dpi <= 2400)) refuse(file, "dpi", std::to_string(r.dpi), "36 to 2400");
  const auto check_scale = [&](const auto* o) {
    if (o && !(o->hi > o->lo)) refuse(file, "hi", std::to_string(o->hi), "more than lo = " + std::to_string(o->lo));
  };
  check_scale(std::get_if<LayerHeadMapOptions>(&r.options));
  check_scale(std::get_if<MetricByLayerOptions>(&r.options));
  check_scale(std::get_if<MapPanelsOptions>(&r.options));
  check_scale(std::get_if<ColumnSpreadOptions>(&r.options));
  const auto check_study_options = [&](const auto* o) {
    if (o && o->pick.y.empty()) refuse(file, "y", "no column", "at least one");
    if (o && (o->columns < 0 || o->columns > 8)) refuse(file, "columns", std::to_string(o->columns), "0 to 8");
  };
  check_study_options(std::get_if<StudyLinesOptions>(&r.options));
  check_study_options(std::get_if<StudyBarsOptions>(&r.options));
  if (const auto* flops = std::get_if<DecodeFlopsOptions>(&r.options)) {
    if (!(flops->context >= 1)) refuse(file, "context", std::to_string(flops->context), "at least 1 token");
    if (!(flops->share > 0 && flops->share <= 1)) refuse(file, "share", std::to_string(flops->share), "0 to 1, 0 not");
  }
  if (const auto* lines = std::get_if<StudyLinesOptions>(&r.options);
      lines && (lines->smooth < 1 || lines->smooth > kMaxSmooth))
    refuse(file, "smooth", std::to_string(lines->smooth), "1 to " + std::to_string(kMaxSmooth) + " points");
  if (const auto* curves = std::get_if<CurvesOptions>(&r.options);
      curves && (curves->points < 2 || curves->points > kMaxCurvePoints))
    refuse(file, "points", std::to_string(curves->points), "2 to " + std::to_string(kMaxCurvePoints));
  if (const auto* strip = std::get_if<TokenStripOptions>(&r.options)) {
    if (strip->count < 1 || strip->count > kMaxStripTokens)
      refuse(file, "count", std::to_string(strip->count), "1 to " + std::to_string(kMaxStripTokens));
    if (strip->bands < 0 || strip->bands > 64) refuse(file, "bands", std::to_string(strip->bands), "0 to 64");
  }
}

}  // namespace

std::string_view figure_name(const FigureOptions& options) { return kFigures[options.index()]; }

FigureStyle FigureRecipe::style() const {
  FigureStyle style = venue.empty() ? FigureStyle{} : venue_style(venue);
  if (width_mm > 0) style.width = width_mm * kPointsPerMm;
  if (height_mm > 0) style.height = height_mm * kPointsPerMm;
  return style;
}

FigureRecipe parse_recipe(const json& root, const std::string& file) {
  if (!root.is_object()) refuse(file, "", "JSON that is not an object", R"({"figure": ..., "trace": ...})");
  Reader read(root, file);
  FigureRecipe recipe;
  std::string preset, figure, trace, study;
  read("preset", preset);
  read("figure", figure);
  if (!preset.empty()) recipe = preset_recipe(preset);
  if (preset.empty() && figure.empty()) refuse(file, "figure", "missing", "one of " + join(kFigures) + ", or a preset");
  if (!figure.empty() && (preset.empty() || figure != figure_name(recipe.options)))
    recipe.options = default_options(figure, file);

  read("trace", trace);
  if (!trace.empty()) recipe.traces = {trace};
  read.strings("traces", recipe.traces);
  read("study", study);
  if (!study.empty()) recipe.studies = {study};
  read.strings("studies", recipe.studies);
  read("run", recipe.run);
  read("runs", recipe.runs);
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
  if (!recipe.studies.empty()) out["studies"] = recipe.studies;
  out["run"] = recipe.run;
  if (!recipe.runs.empty()) out["runs"] = recipe.runs;
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
  const std::string name(figure_name(recipe.options));
  if (recipe.reads_study())
    throw Error(
        {ExitCode::bad_input, "", name, "runs", "a study", "give kvscope figure a study from kvscope sweep or hybrid"});
  if (const auto* flops = std::get_if<DecodeFlopsOptions>(&recipe.options))
    return decode_flops_figure(*flops, recipe.style());
  if (runs.empty()) throw Error({ExitCode::bad_input, "", name, "no run", "at least one", ""});
  const FigureStyle style = recipe.style();
  const RunRecord& run = *runs[0];
  const auto none = [](const auto&) -> BuiltFigure { return {}; };  // not of runs: see above
  return std::visit(OneOf{
                        [&](const LayerHeadMapOptions& map) { return layer_head_map_figure(runs, map, style); },
                        [&](const TokenStripOptions& strip) {
                          return token_strip_figure(run, strip, style, runs.size() > 1 ? runs[1] : nullptr);
                        },
                        [&](const TimelineOptions& timeline) { return timeline_figure(run, timeline, style); },
                        [&](const MetricByLayerOptions& metric) { return metric_by_layer_figure(runs, metric, style); },
                        [&](const CurvesOptions& curves) { return curves_figure(runs, curves, style); },
                        [&](const MapPanelsOptions& maps) { return map_panels_figure(runs, maps, style); },
                        [&](const StudyLinesOptions& lines) { return none(lines); },
                        [&](const StudyBarsOptions& bars) { return none(bars); },
                        [&](const ColumnSpreadOptions& spread) { return none(spread); },
                        [&](const TokenAttentionOptions& token) { return token_attention_figure(runs, token, style); },
                        [&](const DecodeFlopsOptions& flops) { return none(flops); },
                        [&](const ScalingFitOptions& fit) { return none(fit); },
                        [&](const LostFactOptions& fact) { return lost_fact_figure(runs, fact, style); },
                        [&](const RunPointsOptions& points) { return run_points_figure(runs, points, style); },
                        [&](const RunCardOptions& card) { return run_card_figure(run, card, style); },
                        [&](const FingerprintOptions& prints) { return fingerprints_figure(runs, prints, style); },
                        [&](const AnswerDifferenceOptions& two) { return answer_difference_figure(runs, two, style); },
                        [&](const LifetimesOptions& lives) { return lifetimes_figure(run, lives, style); },
                        [&](const UnseenTokensOptions& unseen) { return unseen_tokens_figure(run, unseen, style); },
                        [&](const RunGridOptions& grid) { return run_grid_figure(runs, grid, style); },
                        [&](const GateTrainingOptions& gates) { return none(gates); },
                    },
                    recipe.options);
}

BuiltFigure build_figure(const FigureRecipe& recipe, const StudyTable& study) {
  if (const auto* lines = std::get_if<StudyLinesOptions>(&recipe.options))
    return study_lines_figure(study, *lines, recipe.style());
  if (const auto* bars = std::get_if<StudyBarsOptions>(&recipe.options))
    return study_bars_figure(study, *bars, recipe.style());
  if (const auto* spread = std::get_if<ColumnSpreadOptions>(&recipe.options))
    return column_spread_figure(study, *spread, recipe.style());
  if (const auto* fit = std::get_if<ScalingFitOptions>(&recipe.options))
    return scaling_fit_figure(study, *fit, recipe.style());
  if (const auto* gates = std::get_if<GateTrainingOptions>(&recipe.options))
    return gate_training_figure(study, *gates, recipe.style());
  throw Error({ExitCode::bad_input, "", std::string(figure_name(recipe.options)), "a study", "runs", ""});
}

bool FigureRecipe::reads_study() const {
  return std::holds_alternative<StudyLinesOptions>(options) || std::holds_alternative<StudyBarsOptions>(options) ||
         std::holds_alternative<ColumnSpreadOptions>(options) || std::holds_alternative<ScalingFitOptions>(options) ||
         std::holds_alternative<GateTrainingOptions>(options);
}

bool FigureRecipe::reads_nothing() const { return std::holds_alternative<DecodeFlopsOptions>(options); }

}  // namespace kvscope::views
