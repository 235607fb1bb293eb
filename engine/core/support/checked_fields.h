#pragma once
// Checked fields of a JSON object that another program wrote: a message of the protocol, a text of a trace. Every function
// throws Error (resource) that names the object and the field.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::fields {

[[noreturn]] void bad_field(const nlohmann::json& message, std::string_view key, std::string found,
                            std::string expected);

/// The field, which must be there and of that type.
const nlohmann::json& field(const nlohmann::json& message, const char* key, nlohmann::json::value_t type);
std::int64_t integer(const nlohmann::json& message, const char* key, std::int64_t min, std::int64_t max);
std::uint64_t unsigned_integer(const nlohmann::json& message, const char* key);  // all 64 bits
double number(const nlohmann::json& message, const char* key);
double number(const nlohmann::json& message, const char* key, double min, double max);  // finite
bool boolean(const nlohmann::json& message, const char* key);
std::string text(const nlohmann::json& message, const char* key);
/// Empty if it is not there or no text. Never fails.
std::string text_or_empty(const nlohmann::json& message, const char* key);
/// A list of texts; empty if it is not there.
std::vector<std::string> texts(const nlohmann::json& message, const char* key);
/// A struct that describes itself by visit_fields() (record/run_fields.h), as an object.
template <typename T>
nlohmann::json fields_to_json(const T& value) {
  nlohmann::json object = nlohmann::json::object();
  visit_fields(value, [&](const char* name, const auto& member, auto) { object[name] = member; });
  return object;
}

/// All fields must be there, each within its range.
template <typename T>
T fields_from_json(const nlohmann::json& object) {
  T value;
  visit_fields(value, [&]<typename Member>(const char* name, Member& member, auto range) {
    if constexpr (std::is_same_v<Member, std::string>) {
      member = text(object, name);
    } else if constexpr (std::is_same_v<Member, bool>) {
      member = boolean(object, name);
    } else if constexpr (std::is_same_v<Member, std::uint64_t>) {
      member = unsigned_integer(object, name);
    } else if constexpr (std::is_integral_v<Member>) {
      member = static_cast<Member>(
          integer(object, name, static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
    } else {
      member = number(object, name, range.min, range.max);
    }
  });
  return value;
}

}  // namespace kvscope::fields
