// kvscope figure: the figure that the window shows, as a file for a paper.

#include <cstdio>

#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/process/trace_open.h"
#include "engine/core/support/json_file.h"
#include "views/figure/export.h"
#include "views/figure/recipe.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"preset", "NAME", "a figure of a paper; --list names them"},
    {"o", "FILE", "what to write: .pdf, .svg or .png"},
    {"venue", "NAME", "width and type sizes: neurips, icml, icml:full ... (the recipe's, else neurips)"},
    {"metric", "NAME",
     "of a map, or by layer: density, evict_ratio, cache_share, recall, mass_recall, regret, chance, output_error"},
    {"layer", "N", "of a token strip or timeline"},
    {"kv-head", "N", "of a timeline"},
    {"q", "N", "query position; -1 is the last"},
    {"run", "N", "which run of each trace; -1: all (map) or the first"},
    {"width-mm", "X", "instead of the venue's width"},
    {"dpi", "N", "of a PNG (300)"},
    {"overwrite", "", "replace files of these names"},
    {"no-data", "", "do not write .csv, .npz and the recipe beside it"},
    {"list", "", "list the presets"},
    {"json", "", "the written files, as one object"},
};

void list_presets() {
  std::vector<std::vector<std::string>> rows;
  for (const views::FigurePreset& preset : views::figure_presets()) {
    rows.push_back({std::string(preset.name), std::string(preset.title)});
  }
  std::fputs(format_table(rows).c_str(), stdout);
}

// The recipe as JSON (a preset or a file), with the options of the command line over it: one parser checks all of it.
nlohmann::json recipe_json(const Arguments& arguments, std::vector<std::string>& traces) {
  nlohmann::json recipe = nlohmann::json::object();
  traces = arguments.positionals();
  if (arguments.has("preset")) {
    recipe["preset"] = arguments.text("preset");
  } else {
    if (traces.empty() || !traces[0].ends_with(".json"))
      usage_error("kvscope figure", "neither a recipe nor a preset", "RECIPE.json or --preset NAME TRACE...",
                  "kvscope figure --list names the presets");
    recipe = read_json(traces[0]);
    traces.erase(traces.begin());
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
  if (arguments.has("width-mm")) recipe["width_mm"] = arguments.real("width-mm", 0, 10, 2000);
  if (arguments.has("dpi")) recipe["dpi"] = arguments.real("dpi", 300, 30, 2400);
  return recipe;
}

std::vector<RunRecord> runs_of(const views::FigureRecipe& recipe) {
  std::vector<RunRecord> runs;
  const bool all = recipe.run < 0 && (std::holds_alternative<views::LayerHeadMapOptions>(recipe.options) ||
                                      std::holds_alternative<views::MetricByLayerOptions>(recipe.options));
  for (const std::string& path : recipe.traces) {
    const int first = recipe.run < 0 ? 0 : recipe.run;
    TraceReader trace = open_trace(path);
    const int n = all ? trace.info().n_runs : first + 1;
    for (int i = first; i < n; ++i) runs.push_back(trace.load(i));
  }
  if (all) leave_out_empty(runs);
  return runs;
}

int figure(const Arguments& arguments) {
  if (arguments.has("list")) {
    list_presets();
    return 0;
  }
  if (!arguments.has("o")) usage_error("kvscope figure", "no -o FILE", "a .pdf, .svg or .png to write");
  std::vector<std::string> traces;
  const nlohmann::json json = recipe_json(arguments, traces);
  views::FigureRecipe recipe =
      views::parse_recipe(json, arguments.has("preset") ? "--preset" : arguments.positionals()[0]);
  if (!traces.empty()) recipe.traces = traces;
  if (recipe.traces.empty()) usage_error("kvscope figure", "no trace", "TRACE after the recipe or preset");
  const std::vector<RunRecord> runs = runs_of(recipe);
  const views::BuiltFigure built = views::build_figure(recipe, run_pointers(runs));
  const bool data = !arguments.has("no-data");
  std::vector<std::filesystem::path> inputs(recipe.traces.begin(), recipe.traces.end());
  if (!arguments.has("preset")) inputs.emplace_back(arguments.positionals()[0]);
  const auto written = views::export_figure(
      built, recipe, arguments.text("o"),
      {.data = data, .recipe = data, .replace = arguments.has("overwrite"), .inputs = inputs, .hint = kOverwriteHint});
  if (arguments.has("json")) {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const auto& path : written) files.push_back(path.string());
    write_json_line(nlohmann::ordered_json{{"figure", views::figure_name(recipe.options)}, {"files", files}});
  } else {
    for (const auto& path : written) std::printf("%s\n", path.c_str());
  }
  return 0;
}

}  // namespace

extern const CommandSpec figure_command = {
    "figure",
    "RECIPE.json [TRACE...] -o FILE | --preset NAME TRACE... -o FILE",
    "a figure for a paper: PDF, SVG or PNG",
    "The same figure model that the window draws. Beside FILE stand its numbers (.csv, "
    ".npz) and its recipe (.json), which makes the same bytes again.",
    "  kvscope figure --preset kvpop-fig6 a.h5 -o fig6.pdf --venue icml:full",
    {0, 1000},
    kOptions,
    figure};

}  // namespace kvscope::app
