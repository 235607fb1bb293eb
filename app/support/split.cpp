#include "app/support/split.h"

#include <algorithm>

#include "engine/core/support/trim.h"

namespace kvscope::app {

std::vector<std::string> split(std::string_view text, char separator, std::string_view blanks) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    if (const auto part = trim(text.substr(at, end - at), blanks); !part.empty()) parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

}  // namespace kvscope::app
