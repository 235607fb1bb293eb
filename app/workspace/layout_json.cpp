#include "app/workspace/layout_json.h"

#include <algorithm>

#include "app/workspace/field_json.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxLooks = 100;

OwnLayout layout_from(const nlohmann::json& value, const std::string& file) {
  const JsonObject object(value, file, "own_layouts.");
  OwnLayout layout{.name = object.text("name"), .arrangement = {}, .looks = {}};
  if (layout.name.empty() || layout.name.size() > kMaxLayoutName)
    throw Error({.file = file, .where = "own_layouts.name", .found = in_quotes(layout.name)});
  if (!object.has("arrangement") && !object.has("main_row"))
    throw Error({.file = file, .where = "own_layouts", .found = "a layout without an arrangement"});
  visit_shown(layout, ReadField{object});
  return layout;
}

}  // namespace

nlohmann::json own_layouts_json(const std::vector<OwnLayout>& layouts) {
  nlohmann::json list = nlohmann::json::array();
  for (const OwnLayout& layout : layouts) {
    nlohmann::json object = {{"name", layout.name}};
    visit_shown(layout, WriteField{object});
    list.push_back(std::move(object));
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

nlohmann::json looks_json(const InstanceLooks& looks) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [id, look] : looks) object[id] = fields_json(look);
  return object;
}

InstanceLooks looks_from(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object() || json.size() > kMaxLooks)
    throw Error(
        {.file = file, .where = "looks", .found = "not looks of at most " + std::to_string(kMaxLooks) + " views"});
  const JsonObject object(json, file, "looks.");
  InstanceLooks looks;
  for (const auto& [id, value] : json.items()) read_fields(object, id, looks[id]);
  return looks;
}

}  // namespace kvscope::app
