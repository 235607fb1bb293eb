#pragma once
// Structs that say their fields once (visit_fields) as JSON objects, in the order in which they are said. A real number that is
// not there is NaN in the struct and null in JSON.

#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/core/support/json_file.h"

namespace kvscope {

template <typename T>
nlohmann::ordered_json json_of_fields(const T& value) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  visit_fields(value, [&]<typename Member>(const char* name, const Member& member, auto) {
    if constexpr (std::is_floating_point_v<Member>) {
      object[name] = std::isnan(member) ? nlohmann::ordered_json() : nlohmann::ordered_json(member);
    } else {
      object[name] = member;
    }
  });
  return object;
}

/// A field that is absent has its default. Throws Error naming file, field and range.
template <typename T>
T fields_of_json(const nlohmann::json& json, const std::string& file) {
  const JsonObject object(json, file);
  T value;
  visit_fields(value, [&]<typename Member>(const char* name, Member& member, auto range) {
    if constexpr (std::is_same_v<Member, std::string>) {
      member = object.text_or(name, member);
    } else if constexpr (std::is_same_v<Member, bool>) {
      member = object.boolean_or(name, member);
    } else if constexpr (std::is_same_v<Member, std::vector<std::string>>) {
      member = object.texts(name);
    } else if constexpr (std::is_integral_v<Member>) {
      member = static_cast<Member>(object.integer_or(name, static_cast<std::int64_t>(member),
                                                     static_cast<std::int64_t>(range.min),
                                                     static_cast<std::int64_t>(range.max)));
    } else {
      member = object.number_or(name, member, range.min, range.max);
    }
  });
  return value;
}

}  // namespace kvscope
