// A recipe of JSON: of a training, and of a figure.

#include "engine/jobs/train/recipe.h"

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/fuzz/format.h"
#include "views/figure/recipe.h"

namespace kvscope::fuzz {
namespace {

void read_recipe(std::string_view bytes) {
  const nlohmann::json json = parse_json(bytes, "recipe.json");
  try {
    engine::Recipe::parse(json, "recipe.json");
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
  }
  const views::FigureRecipe figure = views::parse_recipe(json, "recipe.json");
  views::parse_recipe(nlohmann::json(views::to_json(figure)), "recipe.json");
}

const Registration registration("recipe", read_recipe);

}  // namespace
}  // namespace kvscope::fuzz
