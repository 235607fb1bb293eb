// kvscope figure: the figure that the window shows, as a file for a paper.

#include <algorithm>
#include <cstdio>
#include <set>

#include "app/catalog/study_source.h"
#include "app/cli/arguments.h"
#include "app/cli/figure_attention.h"
#include "app/cli/output.h"
#include "app/support/trace_open.h"
#include "engine/core/study/table/study_columns.h"
#include "engine/core/study/table/study_csv.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "views/figure/export.h"
#include "views/figure/recipe.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kFigureOptions[] = {
    {"preset", "PRESET", "a preset (see --list)"},
    {"o", "FILE", "file to write: .pdf, .svg or .png"},
    {"venue", "VENUE", "width and type sizes: neurips, icml, icml:full ... (the recipe's, else neurips)"},
    {"metric", "METRIC",
     "for maps and by-layer figures: density, evict_ratio, cache_share, recall, mass_recall, regret, chance, "
     "output_error"},
    {"layer", "N", "for token strips, timelines and fingerprints"},
    {"kv-head", "N", "for timelines and fingerprints"},
    {"q", "N", "query position; -1 is the last"},
    {"run", "N", "which run of each trace; -1: all (map) or the first"},
    {"set", "KEY=VALUE", "any other key of the recipe, e.g. y=accuracy or 'where=[\"item=needle\"]'", true},
    {"width-mm", "X", "width, instead of the venue's"},
    {"dpi", "N", "resolution of a PNG (300)"},
    {"overwrite", "", "overwrite existing files"},
    {"no-data", "", "do not write .figure.csv, .json and .tex files"},
    {"list", "", "list the presets"},
    {"json", "", "print the written files as one object"},
};

constexpr std::size_t kLargestTable = std::size_t{1} << 26;

void list_presets() {
  std::vector<std::vector<std::string>> rows;
  for (const views::FigurePreset& preset : views::figure_presets()) {
    rows.push_back({std::string(preset.name), std::string(preset.title)});
  }
  std::fputs(format_table(rows).c_str(), stdout);
}

// KEY=VALUE: as JSON where it is a number, a list, true or false, else as text.
void set_key(nlohmann::json& recipe, const std::string& pair, std::set<std::string>& set) {
  const std::size_t at = pair.find('=');
  if (at == 0 || at == std::string::npos)
    usage_error("kvscope figure", "--set \"" + pair + "\"", "KEY=VALUE", "kvscope figure --list names the presets");
  const std::string key = pair.substr(0, at), text = pair.substr(at + 1);
  if (!set.insert(key).second)
    usage_error("kvscope figure", in_quotes(key) + " is given twice", "--set or the option of that name, once");
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  recipe[key] = value.is_discarded() ? nlohmann::json(text) : value;
}

// The recipe as JSON (a preset or a file), with the options of the command line over it: one parser checks all of it.
nlohmann::json recipe_json(const Arguments& arguments, std::vector<std::string>& files) {
  nlohmann::json recipe = nlohmann::json::object();
  files = arguments.positionals();
  if (arguments.has("preset")) {
    recipe["preset"] = arguments.text("preset");
  } else {
    if (files.empty() || !files[0].ends_with(".json"))
      usage_error("kvscope figure", "neither a recipe nor a preset", "RECIPE.json or --preset NAME FILE...",
                  "kvscope figure --list names the presets");
    recipe = read_json(files[0]);
    files.erase(files.begin());
  }
  const auto set_text = [&](const char* option, const char* key) {
    if (arguments.has(option)) recipe[key] = arguments.text(option);
  };
  const auto set_integer = [&](const char* option, const char* key, std::int64_t min) {
    if (arguments.has(option)) recipe[key] = arguments.integer(option, 0, min, 1 << 30);
  };
  set_text("venue", "venue"), set_text("metric", "metric");
  set_integer("layer", "layer", -1), set_integer("kv-head", "kv_head", 0), set_integer("q", "q", -1),
      set_integer("run", "run", -1);
  std::set<std::string> set;
  for (std::string name : {"venue", "metric", "layer", "kv-head", "q", "run", "width-mm", "dpi", "preset"}) {
    const bool given = arguments.has(name);
    std::ranges::replace(name, '-', '_');
    if (given) set.insert(name);
  }
  if (arguments.has("width-mm")) recipe["width_mm"] = arguments.real("width-mm", 0, 10, 2000);
  if (arguments.has("dpi")) recipe["dpi"] = arguments.real("dpi", 300, 30, 2400);
  for (const std::string& pair : arguments.texts("set")) set_key(recipe, pair, set);
  return recipe;
}

bool takes_all_runs(const views::FigureRecipe& recipe) {
  return recipe.run < 0 && (std::holds_alternative<views::LayerHeadMapOptions>(recipe.options) ||
                            std::holds_alternative<views::MetricByLayerOptions>(recipe.options) ||
                            std::holds_alternative<views::MapPanelsOptions>(recipe.options) ||
                            std::holds_alternative<views::LostFactOptions>(recipe.options) ||
                            std::holds_alternative<views::RunPointsOptions>(recipe.options) ||
                            std::holds_alternative<views::RunGridOptions>(recipe.options) ||
                            (std::holds_alternative<views::AnswerDifferenceOptions>(recipe.options) &&
                             recipe.traces.size() == 1));  // which has both
}

// Two traces of several runs each are A and B, unless the recipe says how many are A.
void count_runs_of_a(views::FigureRecipe& recipe, std::size_t n_first, bool said) {
  auto* maps = std::get_if<views::MapPanelsOptions>(&recipe.options);
  if (maps != nullptr && !said && recipe.traces.size() == 2) maps->runs_a = static_cast<int>(n_first);
}

std::vector<RunRecord> runs_of(views::FigureRecipe& recipe, bool says_runs_a) {
  std::vector<RunRecord> runs;
  const bool all = takes_all_runs(recipe);
  if (!recipe.runs.empty() && recipe.runs.size() != recipe.traces.size())
    usage_error("runs", std::to_string(recipe.runs.size()), std::to_string(recipe.traces.size()) + ", one per trace");
  for (std::size_t file = 0; file < recipe.traces.size(); ++file) {
    const int first = !recipe.runs.empty() ? recipe.runs[file] : std::max(0, recipe.run);
    TraceReader trace = open_trace(recipe.traces[file]);
    const int n = all && recipe.runs.empty() ? trace.info().n_runs : first + 1;
    for (int i = first; i < n; ++i) runs.push_back(trace.load(i));
    if (all) leave_out_empty(runs);
    if (file == 0) count_runs_of_a(recipe, runs.size(), says_runs_a);
  }
  return runs;
}

/// Trainings of models are written down by a person: a fit takes text files too.
StudyTable studies_of(const views::FigureRecipe& recipe) {
  const auto is_text = [](const std::string& path) { return path.ends_with(".csv"); };
  if (!std::holds_alternative<views::ScalingFitOptions>(recipe.options) ||
      !std::ranges::all_of(recipe.studies, is_text))
    return read_studies(recipe.studies);
  std::vector<std::pair<std::string, StudyTable>> tables;
  for (const std::string& path : recipe.studies)
    tables.emplace_back(std::filesystem::path(path).stem().string(),
                        parse_study_csv(read_file(path, kLargestTable), path));
  return join_studies(tables);
}

/// What the figure refuses of its columns is said of their file.
views::BuiltFigure of_studies(const views::FigureRecipe& recipe) {
  const StudyTable study = studies_of(recipe);
  try {
    return views::build_figure(recipe, study);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.file.empty()) parts.file = recipe.studies[0];
    throw Error(std::move(parts));
  }
}

/// The figure of one token takes what `score` has printed beside its traces; the recipe then has it.
std::string take_scored(const views::FigureRecipe& recipe, std::vector<std::string>& files) {
  if (!std::holds_alternative<views::TokenAttentionOptions>(recipe.options)) return "";
  const auto json = std::ranges::find_if(files, [](const std::string& path) { return path.ends_with(".json"); });
  if (json == files.end()) return "";
  std::string path = *json;
  files.erase(json);
  return path;
}

/// From the files of the recipe, or `files` where the command line names some.
views::BuiltFigure build(views::FigureRecipe& recipe, std::vector<std::string> files, bool says_runs_a) {
  if (recipe.reads_nothing()) {
    if (!files.empty())
      usage_error("kvscope figure", in_quotes(files[0]), "no file: this figure follows from its keys");
    return views::build_figure(recipe, std::span<const RunRecord* const>());
  }
  const std::string scored = take_scored(recipe, files);
  std::vector<std::string>& sources = recipe.reads_study() ? recipe.studies : recipe.traces;
  if (!files.empty()) sources = files;
  if (sources.empty() && recipe.reads_study())
    usage_error("kvscope figure", "no study", "a study (.h5) after the recipe or preset",
                "docs/records/gallery.md lists the commands of each preset");
  if (sources.empty()) usage_error("kvscope figure", "no trace", "TRACE after the recipe or preset");
  if (recipe.reads_study()) return of_studies(recipe);
  const std::vector<RunRecord> runs = runs_of(recipe, says_runs_a);
  if (auto* token = std::get_if<views::TokenAttentionOptions>(&recipe.options); token != nullptr && !token->attention) {
    if (scored.empty())
      usage_error("kvscope figure", "no attention of a token", "TRACE ATTENTION.json",
                  "kvscope score MODEL --text-file FILE --attention LAYER:TOKEN --json writes it");
    token->attention = read_scored_attention(scored, runs[0].ids);
  }
  return views::build_figure(recipe, run_pointers(runs));
}

int figure(const Arguments& arguments) {
  if (arguments.has("list")) {
    list_presets();
    return 0;
  }
  if (!arguments.has("o")) usage_error("kvscope figure", "no -o FILE", "a .pdf, .svg or .png to write");
  std::vector<std::string> files;
  const nlohmann::json json = recipe_json(arguments, files);
  views::FigureRecipe recipe =
      views::parse_recipe(json, arguments.has("preset") ? "--preset" : arguments.positionals()[0]);
  const views::BuiltFigure built = build(recipe, files, json.contains("runs_a"));
  const bool data = !arguments.has("no-data");
  std::vector<std::filesystem::path> inputs(recipe.traces.begin(), recipe.traces.end());
  inputs.insert(inputs.end(), recipe.studies.begin(), recipe.studies.end());
  if (!arguments.has("preset")) inputs.emplace_back(arguments.positionals()[0]);
  const auto written = views::export_figure(
      built, recipe, arguments.text("o"),
      {.data = data, .recipe = data, .replace = arguments.has("overwrite"), .inputs = inputs, .hint = kOverwriteHint});
  if (arguments.has("json")) {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const auto& path : written) names.push_back(path.string());
    write_json_line(nlohmann::ordered_json{{"figure", views::figure_name(recipe.options)}, {"files", names}});
  } else {
    for (const auto& path : written) std::printf("%s\n", path.c_str());
  }
  return 0;
}

}  // namespace

extern const CommandSpec figure_command = {
    "figure",
    "RECIPE.json [FILE...] -o FIGURE | --preset NAME FILE... -o FIGURE",
    "make a figure for a paper: PDF, SVG or PNG",
    "Draws the same figures as the window, from traces or from studies (of sweep, hybrid, eval, bench or train). "
    "spkv-fig7 needs no file, spkv-fig2 takes a .csv too, and wgkv-fig3 a trace and the output of score --attention. "
    "Also writes, next to FIGURE, its numbers (.figure.csv), its recipe (.json), which "
    "reproduces the same bytes, and the lines for LaTeX (.tex).",
    "  kvscope figure --preset kvpop-fig6 a.h5 -o fig6.pdf --venue icml:full\n"
    "  kvscope figure --preset spkv-fig3 sweep.h5 -o pareto.pdf --set 'where=[\"item=text\"]'",
    {0, 1000},
    kFigureOptions,
    figure};

}  // namespace kvscope::app
