#pragma once
// One character of UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvscope {

struct Utf8Char {
  char32_t code_point = 0;
  std::uint8_t length = 1;  // bytes; 1 for a byte that begins no valid character
  bool valid = false;
};

/// The character that begins at text[at]; at < text.size().
inline Utf8Char decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const int length = first >= 0xC2 && first <= 0xDF   ? 2
                     : (first & 0xF0) == 0xE0         ? 3
                     : first >= 0xF0 && first <= 0xF4 ? 4
                                                      : 0;
  if (length == 0 || text.size() - at < static_cast<std::size_t>(length)) return {};
  char32_t c = first & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    c = c << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return {};
  return {c, static_cast<std::uint8_t>(length), true};
}

inline void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

}  // namespace kvscope
