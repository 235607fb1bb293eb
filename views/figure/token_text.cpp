#include "views/figure/token_text.h"

#include <cstdint>
#include <cstdio>

namespace kvscope::views {
namespace {

/// Control characters, bidirectional overrides, zero-width characters, variation selectors, tags: nothing one sees, or
/// something that moves its neighbours.
bool is_invisible(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

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

char32_t next_code_point(std::string_view utf8, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return i < utf8.size() ? static_cast<std::uint8_t>(utf8[i]) : 0u; };
  const std::uint32_t lead = byte(at);
  const int n = lead < 0x80                   ? 1
                : lead >= 0xc2 && lead < 0xe0 ? 2
                : lead >= 0xe0 && lead < 0xf0 ? 3
                : lead >= 0xf0 && lead < 0xf5 ? 4
                                              : 0;
  if (n == 1) return static_cast<char32_t>(utf8[at++]);
  char32_t c = n == 2 ? lead & 0x1f : n == 3 ? lead & 0x0f : lead & 0x07;
  for (int i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) {
      ++at;
      return 0xfffd;
    }
    c = c << 6 | (byte(at + i) & 0x3f);
  }
  const bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
  if (n == 0 || overlong || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    ++at;
    return 0xfffd;
  }
  at += n;
  return c;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::string token_label(std::string_view bytes, std::size_t max_code_points) {
  return readable(bytes, true, max_code_points);
}

std::string token_text(std::string_view bytes) { return readable(bytes, false, 0); }

bool ends_line(std::string_view bytes) { return bytes.find('\n') != std::string_view::npos; }

}  // namespace kvscope::views
