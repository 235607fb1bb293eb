// An arrangement as JSON: {"docked": PART, "floating": [{"part": PART, "place": [x, y, w, h]}]}, where PART is
// {"tabs": [ID, ...], "front": ID} or {"across": [PART, PART], "share": 0.4}, with "down" for parts above each other.

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "app/workspace/arrangement.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::json;
using Split = DockPart::Split;

constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxWindows = 100, kMaxId = 80, kMaxFloating = 32;

[[noreturn]] void refuse(const std::string& file, const std::string& found) {
  throw Error({.file = file, .where = "arrangement", .found = found});
}

json part_json(const DockPart& part) {
  if (part.split == Split::none) {
    json group = {{"tabs", part.tabs}};
    if (!part.front.empty()) group["front"] = part.front;
    return group;
  }
  json split = {
      {part.split == Split::across ? "across" : "down", {part_json(part.parts[0]), part_json(part.parts[1])}}};
  if (part.share > 0) split["share"] = part.share;
  return split;
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  DockPart part(const json& from, int depth = 0) {
    if (!from.is_object() || depth > kMaxDepth) refuse(file_, depth > kMaxDepth ? "too many splits" : "no part");
    DockPart part;
    if (from.contains("tabs")) {
      const json& tabs = from["tabs"];
      if (!tabs.is_array()) refuse(file_, "tabs that are not a list");
      for (const json& tab : tabs) part.tabs.push_back(window(tab));
      if (from.contains("front") && from["front"].is_string()) part.front = from["front"].get<std::string>();
      if (std::ranges::find(part.tabs, part.front) == part.tabs.end()) part.front.clear();
      return part;
    }
    part.split = from.contains("across") ? Split::across : Split::down;
    const json parts = from.value(part.split == Split::across ? "across" : "down", json());
    if (!parts.is_array() || parts.size() != 2) refuse(file_, "a split that has not two parts");
    for (const json& child : parts) part.parts.push_back(this->part(child, depth + 1));
    part.share = from.contains("share") ? number(from["share"], 0, 1) : 0;
    return part;
  }
  float number(const json& value, double lo, double hi) const {
    if (!value.is_number() || !(value.get<double>() >= lo && value.get<double>() <= hi))
      refuse(file_, "a share that is not from " + std::to_string(static_cast<int>(lo)) + " to 1");
    return value.get<float>();
  }

 private:
  std::string window(const json& id) {
    if (!id.is_string() || id.get_ref<const std::string&>().empty() || id.get_ref<const std::string&>().size() > kMaxId)
      refuse(file_, "a window without a name");
    std::string name = id.get<std::string>();
    if (!seen_.insert(name).second) refuse(file_, in_quotes(name) + " twice");
    if (seen_.size() > kMaxWindows) refuse(file_, "over " + std::to_string(kMaxWindows) + " windows");
    return name;
  }

  const std::string& file_;
  std::set<std::string> seen_;
};

}  // namespace

json arrangement_json(const Arrangement& all) {
  json floating = json::array();
  for (const FloatingPart& part : all.floating)
    floating.push_back({{"part", part_json(part.part)}, {"place", {part.x, part.y, part.w, part.h}}});
  json object = {{"docked", part_json(all.docked)}};
  if (!floating.empty()) object["floating"] = floating;
  return object;
}

Arrangement arrangement_from(const json& from, const std::string& file) {
  if (!from.is_object() || !from.contains("docked")) refuse(file, "none");
  Reader reader(file);
  Arrangement all{.docked = reader.part(from["docked"]), .floating = {}};
  const json floating = from.value("floating", json::array());
  if (!floating.is_array() || floating.size() > kMaxFloating) refuse(file, "too many floating parts");
  for (const json& one : floating) {
    if (!one.is_object() || !one.contains("part")) refuse(file, "no part");
    const json place = one.value("place", json());
    if (!place.is_array() || place.size() != 4) refuse(file, "a floating part without a place");
    FloatingPart part{.part = reader.part(one["part"])};
    float* const values[] = {&part.x, &part.y, &part.w, &part.h};
    for (std::size_t i = 0; i < 4; ++i) *values[i] = reader.number(place[i], i < 2 ? -1 : 0, 1);
    all.floating.push_back(std::move(part));
  }
  return all;
}

}  // namespace kvscope::app
