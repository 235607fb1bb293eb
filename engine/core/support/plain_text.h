#pragma once
// Bytes of tokens as text that any reader takes.

#include <string>
#include <string_view>

#include "engine/core/support/utf8.h"

namespace kvscope {

/// UTF-8 without NULs: a token may be half of a character, and C strings end at a NUL. Each such byte becomes U+FFFD.
inline std::string plain_text(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    append_utf8(text, c.valid && c.code_point != 0 ? c.code_point : U'\uFFFD');
    at += c.length;
  }
  return text;
}

}  // namespace kvscope
