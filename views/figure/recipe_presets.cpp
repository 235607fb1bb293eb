// Figures of the papers by name. A preset is a recipe without a trace; what it draws is in its title.
#include <algorithm>

#include "engine/core/support/error.h"
#include "views/figure/recipe.h"

namespace kvscope::views {
namespace {

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
      {"cache-timeline", "One head's cache over time: lifelines and occupancy",
       recipe_of("icml:column", TimelineOptions{})},
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
  std::string all;
  for (const FigurePreset& p : presets) all += (all.empty() ? "" : ", ") + std::string(p.name);
  throw Error({ExitCode::usage, "", "preset", "\"" + std::string(name) + "\"", "one of " + all, ""});
}

}  // namespace kvscope::views
