#pragma once
// A figure as files: FIGURE.pdf|svg|png, and beside it FIGURE.csv (the numbers), FIGURE.npz (the same as arrays) and
// FIGURE.json (the recipe, with caption and definitions).

#include <filesystem>
#include <vector>

#include "views/figure/recipe.h"

namespace kvscope::views {

struct ExportOptions {
  bool data = true;    // .csv and .npz
  bool recipe = true;  // .json
};

/// Writes each file whole or not at all; returns what was written, the figure first. The same recipe and runs give the
/// same bytes. Throws Error: a name that does not end in .pdf, .svg or .png (usage), a folder that cannot be written.
std::vector<std::filesystem::path> export_figure(const BuiltFigure& built, const FigureRecipe& recipe,
                                                 const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace kvscope::views
