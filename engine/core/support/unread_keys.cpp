#include "engine/core/support/unread_keys.h"

#include <algorithm>

#include "engine/core/support/error.h"

namespace kvscope {

bool is_set(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && !value.empty();  // a number is never empty
}

std::optional<std::string> unread_keys(const nlohmann::json& object, std::span<const std::string_view> known,
                                       const std::string& file, const std::string& consequence) {
  constexpr std::size_t kShown = 8;
  std::string names;
  std::size_t n = 0;
  for (const auto& [key, value] : object.items()) {
    if (!is_set(value) || std::ranges::find(known, key) != known.end()) continue;
    if (++n <= kShown) names += (n > 1 ? ", " : "") + escape_for_terminal(key, 60);
  }
  if (n == 0) return std::nullopt;
  if (n > kShown) names += " and " + std::to_string(n - kShown) + " more";
  return file + ": unknown keys: " + names + "; " + consequence;
}

}  // namespace kvscope
