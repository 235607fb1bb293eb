#pragma once
// A figure as JSON: what `kvscope figure` reads, and what is saved next to each exported figure so that it can be made
// again byte for byte.
//
//   {"figure": "layer_head_map", "trace": "run.h5", "metric": "density", "q": -1, "venue": "icml:column"}

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "views/figure/figure_options.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct FigureRecipe {
  std::vector<std::string> traces;  // "trace": one path, or "traces": several
  std::vector<std::string>
      studies;                    // "study" or "studies", in place of traces: .h5 of sweep and hybrid, .csv or .jsonl
  int run = -1;                   // which run of each trace; -1: all of them (layer x head map) or the first
  std::vector<int> runs;          // in place of `run`: the run of each trace, which is named once for each
  std::string venue = "neurips";  // "" with an own width
  double width_mm = 0;            // > 0 overrides the venue's
  double height_mm = 0;           // > 0 fixes the height
  double dpi = 300;               // of a PNG, and of large heat maps in PDF and SVG (at least)
  FigureOptions options = LayerHeadMapOptions{};

  FigureStyle style() const;
  /// Whether it is drawn from a study's points, not from runs.
  bool reads_study() const;
  /// Whether it is drawn from its keys alone.
  bool reads_nothing() const;
};

/// A figure of a paper: a name and the recipe without traces or studies.
struct FigurePreset {
  std::string_view name;   // "kvpop-fig6"
  std::string_view title;  // "Token strip: KV heads retaining each token (KVpop Fig. 6)"
  FigureRecipe recipe;
  int least_runs = 1;  // that it needs; 0: a study, nothing, or more than runs
};
std::span<const FigurePreset> figure_presets();
/// Throws Error (usage) that lists the presets.
FigureRecipe preset_recipe(std::string_view name);

/// "preset" first, then the other keys over it. An unknown figure, key, metric, venue, preset ... throws Error that
/// lists what exists; `file` names the source. `trace` may be missing (the command line adds it).
FigureRecipe parse_recipe(const nlohmann::json& json, const std::string& file);
/// Every key written out; parse_recipe(to_json(r)) gives the same recipe.
nlohmann::ordered_json to_json(const FigureRecipe& recipe);

/// `runs` as the recipe's traces gave them; of what reads_nothing() none. Throws Error (bad input) if the figure cannot be made from them.
BuiltFigure build_figure(const FigureRecipe& recipe, std::span<const RunRecord* const> runs);
/// The same of what reads_study(); of several studies, one under another (join_tables()).
BuiltFigure build_figure(const FigureRecipe& recipe, const StudyTable& study);

}  // namespace kvscope::views
