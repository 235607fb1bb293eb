#pragma once
// Checked getters of a command's arguments.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "app/support/usage.h"

namespace kvscope::app {

[[noreturn]] inline void bad_argument(const char* key, const std::string& expected) {
  usage_error(key, "missing or not valid", expected);
}

inline bool has_argument(const nlohmann::json& arguments, const char* key) {
  return arguments.is_object() && arguments.contains(key) && !arguments[key].is_null();
}
inline std::string text_argument(const nlohmann::json& arguments, const char* key) {
  if (!has_argument(arguments, key) || !arguments[key].is_string()) bad_argument(key, "a text");
  return arguments[key].get<std::string>();
}
inline double number_argument(const nlohmann::json& arguments, const char* key) {
  if (!has_argument(arguments, key) || !arguments[key].is_number()) bad_argument(key, "a number");
  return arguments[key].get<double>();
}
inline double number_argument(const nlohmann::json& arguments, const char* key, double fallback) {
  return has_argument(arguments, key) ? number_argument(arguments, key) : fallback;
}
inline int integer_argument(const nlohmann::json& arguments, const char* key, int fallback) {
  const double value = number_argument(arguments, key, fallback);
  if (std::abs(value) > 2e9 || value != std::floor(value)) bad_argument(key, "a whole number");
  return static_cast<int>(value);
}
inline bool flag_argument(const nlohmann::json& arguments, const char* key, bool fallback) {
  if (!has_argument(arguments, key)) return fallback;
  if (!arguments[key].is_boolean()) bad_argument(key, "true or false");
  return arguments[key].get<bool>();
}

}  // namespace kvscope::app
