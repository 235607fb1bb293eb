#pragma once
// A figure as files: FIGURE.pdf|svg|png, and beside it FIGURE.figure.csv (the numbers; a sweep has its table in
// NAME.csv), FIGURE.json (the recipe, with caption and definitions) and FIGURE.tex (the lines that include it, with the
// caption).

#include <filesystem>
#include <vector>

#include "views/figure/recipe.h"

namespace kvscope::views {

struct ExportOptions {
  bool data = true;    // .figure.csv
  bool recipe = true;  // .json and .tex
  bool replace = false;
  std::vector<std::filesystem::path> inputs;                 // traces and recipe, which no file of the figure replaces
  std::string hint = "choose another name or overwrite it";  // where one exists
};

/// Writes all files whole or none; returns their names, the figure first. The same recipe and runs give the same bytes.
/// Throws Error: a name that does not end in .pdf, .svg or .png (usage), a folder that cannot be written, a file of
/// another figure or one of the inputs under one of the names.
std::vector<std::filesystem::path> export_figure(const BuiltFigure& built, const FigureRecipe& recipe,
                                                 const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace kvscope::views
