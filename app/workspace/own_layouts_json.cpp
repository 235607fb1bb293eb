#include "app/workspace/own_layouts_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxViews = 16;

OwnLayout layout_from(const nlohmann::json& value, const std::string& file) {
  const JsonObject object(value, file, "own_layouts.");
  OwnLayout layout{.name = object.text("name"),
                   .left = object.boolean_or("left_panel", true),
                   .right = object.boolean_or("inspector", true),
                   .bottom = object.boolean_or("time_deck", true),
                   .main_row = {}};
  if (layout.name.empty() || layout.name.size() > kMaxLayoutName)
    throw Error({.file = file, .where = "own_layouts.name", .found = in_quotes(layout.name)});
  const nlohmann::json row = value.value("main_row", nlohmann::json());
  if (!row.is_array() || row.size() > kMaxViews)
    throw Error({.file = file, .where = "own_layouts.main_row", .found = "not a list of views"});
  for (const auto& view : row) {
    if (!view.is_string()) throw Error({.file = file, .where = "own_layouts.main_row", .found = "not a list of views"});
    layout.main_row.push_back(view.get<std::string>());
  }
  return layout;
}

}  // namespace

nlohmann::json own_layouts_json(const std::vector<OwnLayout>& layouts) {
  nlohmann::json list = nlohmann::json::array();
  for (const OwnLayout& layout : layouts) {
    list.push_back({{"name", layout.name},
                    {"left_panel", layout.left},
                    {"inspector", layout.right},
                    {"time_deck", layout.bottom},
                    {"main_row", layout.main_row}});
  }
  return list;
}

std::vector<OwnLayout> own_layouts_from(const nlohmann::json& list, const std::string& file) {
  if (!list.is_array() || list.size() > kMaxOwnLayouts)
    throw Error({.file = file,
                 .where = "own_layouts",
                 .found = "not a list of at most " + std::to_string(kMaxOwnLayouts) + " layouts"});
  std::vector<OwnLayout> layouts;
  for (const auto& value : list) {
    layouts.push_back(layout_from(value, file));
    if (std::ranges::count(layouts, layouts.back().name, &OwnLayout::name) > 1)
      throw Error({.file = file, .where = "own_layouts", .found = in_quotes(layouts.back().name) + " twice"});
  }
  return layouts;
}

}  // namespace kvscope::app
