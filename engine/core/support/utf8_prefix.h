#pragma once

#include <cstddef>
#include <string_view>

namespace kvscope {

/// The first n bytes of UTF-8, or up to 3 fewer so that no character is cut.
inline std::string_view utf8_prefix(std::string_view text, std::size_t n) {
  if (n >= text.size()) return text;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  return text.substr(0, n);
}

}  // namespace kvscope
