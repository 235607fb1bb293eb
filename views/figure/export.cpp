#include "views/figure/export.h"

#include "engine/core/support/json_file.h"
#include "views/figure/render.h"
#include "views/figure/tex_include.h"

namespace kvscope::views {
namespace {

/// The recipe and, for people, what its caption must say; parse_recipe() reads it back.
std::string recipe_text(const BuiltFigure& built, const FigureRecipe& recipe) {
  nlohmann::ordered_json json = to_json(recipe);
  json["caption"] = built.caption;
  if (const auto* map = std::get_if<LayerHeadMapOptions>(&recipe.options)) {
    const MetricInfo& info = metric_info(map->metric);
    json["definition"] = std::string(info.name) + ": " + std::string(info.definition);
  }
  json["program"] = "kvscope figure";
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::filesystem::path> export_figure(const BuiltFigure& built, const FigureRecipe& recipe,
                                                 const std::filesystem::path& path, const ExportOptions& options) {
  const FigureFormat format = figure_format(path.string());
  std::vector<FileToWrite> files;
  const auto add = [&](const char* extension, std::string bytes) {
    std::filesystem::path beside = path;
    if (*extension != '\0') beside.replace_extension(extension);
    files.push_back({std::move(beside), std::move(bytes)});
  };
  add("", render_figure(built.figure, format, recipe.dpi));
  if (options.data) add(".figure.csv", built.data.to_csv());
  if (options.recipe) {
    add(".json", recipe_text(built, recipe));
    add(".tex", tex_include(path.filename().string(), built.figure.width, built.caption));
  }
  write_files_atomic(files, options.replace, options.inputs, options.hint);
  std::vector<std::filesystem::path> written;
  for (const FileToWrite& file : files) written.push_back(file.path);
  return written;
}

}  // namespace kvscope::views
