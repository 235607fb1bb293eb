#pragma once
// What another program's file says that nobody here reads.

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvscope {

/// A line that names the keys of `object` which are not in `known` and hold a value: not null, false, "", [] or {}.
/// `consequence` ends the line ("the model may compute otherwise"). Nothing if there is no such key.
std::optional<std::string> unread_keys(const nlohmann::json& object, std::span<const std::string_view> known,
                                       const std::string& file, const std::string& consequence);

/// Not null, false, "", [] or {}.
bool is_set(const nlohmann::json& value);

}  // namespace kvscope
