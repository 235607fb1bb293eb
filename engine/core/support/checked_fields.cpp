#include "engine/core/support/checked_fields.h"

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::fields {

using nlohmann::json;

namespace {

const json* find(const json& message, const char* key) {
  if (!message.is_object()) return nullptr;
  const auto found = message.find(key);
  return found == message.end() ? nullptr : &*found;
}

const json& require(const json& message, const char* key, const char* expected) {
  const json* value = find(message, key);
  if (value == nullptr) bad_field(message, key, "nothing", expected);
  return *value;
}

}  // namespace

void bad_field(const json& message, std::string_view key, std::string found, std::string expected) {
  const json* type = find(message, "type");
  throw Error({.code = ExitCode::resource,
               .file = "message" + (type != nullptr && type->is_string() ? " " + type->get<std::string>() : ""),
               .where = std::string(key),
               .found = std::move(found),
               .expected = std::move(expected)});
}

const json& field(const json& message, const char* key, json::value_t type) {
  const json expected(type);
  const json& value = require(message, key, expected.type_name());
  if (value.type() != type) bad_field(message, key, value.type_name(), expected.type_name());
  return value;
}

std::int64_t integer(const json& message, const char* key, std::int64_t min, std::int64_t max) {
  const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  const json& value = require(message, key, expected.c_str());
  if (!value.is_number_integer()) bad_field(message, key, value.type_name(), expected);
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (too_large || value.get<std::int64_t>() < min || value.get<std::int64_t>() > max) {
    bad_field(message, key, value.dump(), expected);
  }
  return value.get<std::int64_t>();
}

std::uint64_t unsigned_integer(const json& message, const char* key) {
  const json& value = require(message, key, "an integer that is not negative");
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  return static_cast<std::uint64_t>(integer(message, key, 0, INT64_MAX));
}

double number(const json& message, const char* key) {
  const json& value = require(message, key, "a number");
  if (!value.is_number()) bad_field(message, key, value.type_name(), "a number");
  return value.get<double>();
}

double number(const json& message, const char* key, double min, double max) {
  const double value = number(message, key);
  if (!(value >= min && value <= max)) {
    bad_field(message, key, number_text(value, 9),
              "a number from " + number_text(min, 9) + " to " + number_text(max, 9));
  }
  return value;
}

bool boolean(const json& message, const char* key) { return field(message, key, json::value_t::boolean).get<bool>(); }

std::string text(const json& message, const char* key) {
  return field(message, key, json::value_t::string).get<std::string>();
}

std::string text_or_empty(const json& message, const char* key) {
  const json* value = find(message, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::vector<std::string> texts(const json& message, const char* key) {
  std::vector<std::string> list;
  if (!message.contains(key)) return list;
  for (const json& one : field(message, key, json::value_t::array)) {
    if (!one.is_string()) bad_field(message, key, one.type_name(), "texts");
    list.push_back(one.get<std::string>());
  }
  return list;
}

}  // namespace kvscope::fields
