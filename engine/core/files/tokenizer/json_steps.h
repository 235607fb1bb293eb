#pragma once
// What the readers of tokenizer.json's parts share: how they refuse, and how they look into a list.

#include <string>

#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {

class JsonStepReader {
 protected:
  explicit JsonStepReader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(std::string where, std::string found, std::string expected) const {
    refuse(file_, std::move(where), std::move(found), std::move(expected));
  }
  [[noreturn]] void unsupported(const std::string& where, const std::string& type, std::string expected) const {
    fail(where + ".type", in_quotes(type) + " is not supported", std::move(expected));
  }
  /// The text at `key` must be the one that is known.
  void demand_text(const JsonObject& object, const std::string& where, const char* key, std::string_view wanted) const {
    const std::string found = object.text(key);
    if (found != wanted) fail(where + "." + key, in_quotes(found) + " is not supported", in_quotes(wanted));
  }
  /// The elements of a Sequence, which each component calls differently.
  const nlohmann::json& elements(const nlohmann::json& sequence, const std::string& where, const char* key) const {
    const auto it = sequence.find(key);
    if (it == sequence.end() || !it->is_array()) fail(where + "." + key, "missing or not a list", "a list");
    return *it;
  }
  /// An element of a list, which must have that type.
  JsonObject typed(const nlohmann::json& raw, const std::string& where, const char* wanted) const {
    JsonObject object(raw, file_, where);
    const std::string type = object.text("type");
    if (type != wanted) unsupported(where, type, "\"" + std::string(wanted) + "\" here");
    return object;
  }

  std::string file_;
};

}  // namespace kvscope
