#pragma once
// Visitors that write fields as JSON and read them back, checked. A field that is not there keeps what it has.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/workspace/layout_json.h"
#include "app/workspace/pins_json.h"
#include "app/workspace/state_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

struct WriteField {
  nlohmann::json& object;
  template <typename Value, typename Range>
  void operator()(std::string_view name, const Value& value, Range) const {
    object[std::string(name)] = value;
  }
  void operator()(std::string_view name, const Conversation& value, AnyValue) const {
    object[std::string(name)] = to_json(value);
  }
  void operator()(std::string_view name, const views::TokenSpan& value, FieldRange) const {
    object[std::string(name)] = {value.begin, value.end};
  }
  void operator()(std::string_view name, const views::HeadSet& value, AnyValue) const {
    object[std::string(name)] = views::to_text(value);
  }
  void operator()(std::string_view name, const views::ScaleClip& value, AnyValue) const {
    object[std::string(name)] = value.on ? nlohmann::json({value.lo, value.hi}) : nlohmann::json();
  }
  void operator()(std::string_view name, const PinnedTexts& texts, AnyValue) const {
    object[std::string(name)] = pinned_texts_json(texts);
  }
  void operator()(std::string_view name, const std::vector<OwnLayout>& layouts, AnyValue) const {
    object[std::string(name)] = own_layouts_json(layouts);
  }
  void operator()(std::string_view name, const Arrangement& value, AnyValue) const {
    object[std::string(name)] = arrangement_json(value);
  }
  void operator()(std::string_view name, const InstanceLooks& looks, AnyValue) const {
    object[std::string(name)] = looks_json(looks);
  }
  void operator()(std::string_view name, const std::map<int, std::string>& notes, AnyValue) const {
    nlohmann::json& by_run = object[std::string(name)] = nlohmann::json::object();
    for (const auto& [run, note] : notes) by_run[std::to_string(run)] = note;
  }
  template <typename Enum>
  void operator()(std::string_view name, const Enum& value, Named named) const {
    object[std::string(name)] = named.names[static_cast<std::size_t>(value)];
  }
  void operator()(std::string_view name, const std::optional<std::int32_t>& value, FieldRange) const {
    object[std::string(name)] = value ? nlohmann::json(*value) : nlohmann::json();
  }
};

struct ReadField {
  const JsonObject& object;

  void operator()(std::string_view name, double& value, FieldRange range) const {
    value = object.number_or(name, value, range.min, range.max);
  }
  void operator()(std::string_view name, float& value, FieldRange range) const {
    // 0.8 as a float is a little more than 0.8: at its end of the range a value is still within it.
    const auto as_float = [](double limit) { return static_cast<double>(static_cast<float>(limit)); };
    const double min = std::min(range.min, as_float(range.min)), max = std::max(range.max, as_float(range.max));
    value = static_cast<float>(object.number_or(name, static_cast<double>(value), min, max));
  }
  void operator()(std::string_view name, int& value, FieldRange range) const {
    value = static_cast<int>(object.integer_or(name, value, whole(range.min), whole(range.max)));
  }
  void operator()(std::string_view name, std::uint64_t& value, AnyValue) const {
    value = static_cast<std::uint64_t>(object.integer_or(name, static_cast<std::int64_t>(value), 0, INT64_MAX));
  }
  void operator()(std::string_view name, bool& value, AnyValue) const { value = object.boolean_or(name, value); }
  void operator()(std::string_view name, std::string& value, AnyValue) const { value = object.text_or(name, value); }
  void operator()(std::string_view name, std::optional<std::int32_t>& value, FieldRange range) const {
    value.reset();
    if (object.has(name)) value = static_cast<std::int32_t>(object.integer(name, whole(range.min), whole(range.max)));
  }
  template <typename Enum>
  void operator()(std::string_view name, Enum& value, Named named) const {
    const std::string text = object.text_or(name, std::string(named.names[static_cast<std::size_t>(value)]));
    for (std::size_t i = 0; i < named.names.size(); ++i) {
      if (named.names[i] == text) return void(value = static_cast<Enum>(i));
    }
    throw Error({.file = object.file(), .where = std::string(name), .found = in_quotes(text)});
  }
  void operator()(std::string_view name, std::vector<std::string>& values, AnyValue) const {
    values.clear();
    if (!object.has(name)) return;
    const nlohmann::json& list = object.raw()[std::string(name)];
    for (const auto& item : list.is_array() ? list : nlohmann::json::array({nullptr})) {
      if (!item.is_string())
        throw Error({.file = object.file(), .where = std::string(name), .found = "not a list of texts"});
      values.push_back(item.get<std::string>());
    }
  }
  void operator()(std::string_view name, std::vector<int>& values, FieldRange range) const {
    values.clear();
    if (!object.has(name)) return;
    for (const auto& item : object.raw()[std::string(name)]) {
      if (!item.is_number_integer() || item < range.min || item > range.max)
        throw Error({.file = object.file(), .where = std::string(name), .found = "not a list of numbers"});
      values.push_back(item.get<int>());
    }
  }
  void operator()(std::string_view name, views::TokenSpan& value, FieldRange range) const {
    value = {};
    if (!object.has(name)) return;
    const nlohmann::json& list = object.raw()[std::string(name)];
    const auto is_position = [&](const nlohmann::json& item) {
      return item.is_number_integer() && item >= range.min && item <= range.max;
    };
    if (!list.is_array() || list.size() != 2 || !is_position(list[0]) || !is_position(list[1]) || list[0] > list[1])
      throw Error({.file = object.file(), .where = std::string(name), .found = "not a range of positions"});
    value = {list[0].get<std::int32_t>(), list[1].get<std::int32_t>()};
  }
  void operator()(std::string_view name, views::HeadSet& value, AnyValue) const {
    value = views::parse_heads(object.text_or(name, ""), object.file(), std::string(name));
  }
  void operator()(std::string_view name, views::ScaleClip& value, AnyValue) const {
    value = {};
    if (!object.has(name)) return;
    const nlohmann::json& list = object.raw()[std::string(name)];
    const auto is_value = [](const nlohmann::json& item) {
      return item.is_number() && std::abs(item.get<double>()) < 1e9;
    };
    if (!list.is_array() || list.size() != 2 || !is_value(list[0]) || !is_value(list[1]) || !(list[0] < list[1]))
      throw Error({.file = object.file(), .where = std::string(name), .found = "not a range of values"});
    value = {true, list[0].get<double>(), list[1].get<double>()};
  }
  void operator()(std::string_view name, Conversation& value, AnyValue) const {
    if (object.has(name))
      value = conversation_from(JsonObject(object.raw()[std::string(name)], object.file(), std::string(name) + "."));
  }
  void operator()(std::string_view name, PinnedTexts& texts, AnyValue) const {
    texts.clear();
    if (object.has(name))
      texts = pinned_texts_from(object.raw()[std::string(name)], object.file() + ": " + std::string(name));
  }
  void operator()(std::string_view name, std::vector<OwnLayout>& layouts, AnyValue) const {
    layouts.clear();
    if (object.has(name)) layouts = own_layouts_from(object.raw()[std::string(name)], object.file());
  }
  /// Before 0.3 a layout had the views of its row alone.
  void operator()(std::string_view name, Arrangement& value, AnyValue) const {
    if (object.has(name)) {
      value = arrangement_from(object.raw()[std::string(name)], object.file());
    } else if (object.has("main_row")) {
      std::vector<std::string> row;
      (*this)("main_row", row, AnyValue{});
      if (!row.empty()) value = arrangement_of(row);
    }
  }
  void operator()(std::string_view name, InstanceLooks& looks, AnyValue) const {
    looks.clear();
    if (object.has(name)) looks = looks_from(object.raw()[std::string(name)], object.file());
  }
  void operator()(std::string_view name, std::map<int, std::string>& notes, AnyValue) const {
    notes.clear();
    if (object.has(name)) notes = run_notes_from(object.raw()[std::string(name)], object.file());
  }

 private:
  static std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }
};

/// All fields of a part as an object.
template <typename Part>
nlohmann::json fields_json(const Part& part) {
  nlohmann::json object = nlohmann::json::object();
  visit_fields(part, WriteField{object});
  return object;
}

/// Reads object[key], if it is there, into the part.
template <typename Part>
void read_fields(const JsonObject& object, const std::string& key, Part& part) {
  if (!object.has(key)) return;
  const JsonObject fields(object.raw()[key], object.file(), key + ".");
  visit_fields(part, ReadField{fields});
}

}  // namespace kvscope::app
