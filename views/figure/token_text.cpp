#include "views/figure/token_text.h"

#include <cstdio>

#include "engine/core/support/utf8.h"

namespace kvscope::views {
namespace {

std::string code_point_name(char32_t c) {
  char text[24];
  std::snprintf(text, sizeof text, "⟨U+%04X⟩", static_cast<unsigned>(c));
  return text;
}

std::string readable(std::string_view bytes, bool visible_space, std::size_t max_code_points) {
  std::string text;
  std::size_t n = 0;
  for (std::size_t at = 0; at < bytes.size(); ++n) {
    if (max_code_points > 0 && n == max_code_points) return text + "…";
    const std::size_t start = at;
    const char32_t c = next_code_point(bytes, at);
    if (c == 0xfffd && at == start + 1) {
      char hex[16];
      std::snprintf(hex, sizeof hex, "⟨%02X⟩", static_cast<unsigned>(static_cast<unsigned char>(bytes[start])));
      text += hex;
    } else if (c == ' ') {
      text += visible_space ? "·" : " ";
    } else if (c == '\n') {
      text += "↵";
    } else if (c == '\t') {
      text += "⇥";
    } else if (c == '\r') {
      text += "␍";
    } else if (is_invisible(c)) {
      text += code_point_name(c);
    } else {
      text.append(bytes.substr(start, at - start));
    }
  }
  return text;
}

}  // namespace

bool is_invisible(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

char32_t next_code_point(std::string_view utf8, std::size_t& at) {
  const Utf8Char c = decode_utf8(utf8, at);
  at += c.length;
  return c.valid ? c.code_point : 0xfffd;
}

std::string token_label(std::string_view bytes, std::size_t max_code_points) {
  return readable(bytes, true, max_code_points);
}

std::string token_text(std::string_view bytes) { return readable(bytes, false, 0); }

bool ends_line(std::string_view bytes) { return bytes.find('\n') != std::string_view::npos; }

}  // namespace kvscope::views
