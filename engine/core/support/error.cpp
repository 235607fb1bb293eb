#include "engine/core/support/error.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// Characters that change a terminal's state, end a line, or show text in another order than it is stored.
bool must_be_escaped(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;        // C0, DEL, C1
  if (c == 0x061C || c == 0x200E || c == 0x200F) return true;  // direction marks
  if (c >= 0x2028 && c <= 0x202E) return true;                 // line and paragraph separator, embeddings, overrides
  if (c >= 0x2060 && c <= 0x206F) return true;                 // invisible operators, isolates
  if (c == 0xFEFF) return true;
  return c >= 0xE0000 && c <= 0xE007F;  // tags: invisible ASCII
}

std::string escaped(std::string_view bytes, char32_t c, bool valid) {
  char text[16];
  if (!valid || c < 0x80) {
    std::snprintf(text, sizeof text, "\\x%02X", static_cast<unsigned char>(bytes.front()));
  } else {
    std::snprintf(text, sizeof text, "\\u{%04X}", static_cast<unsigned>(c));
  }
  return text;
}

}  // namespace

std::string escape_for_terminal(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kEllipsis = "\u2026";
  std::string out;
  std::size_t fits = 0;  // length of `out` up to which an ellipsis would still fit
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (c.valid && !must_be_escaped(c.code_point)) {
      out.append(text.substr(i, c.length));
    } else {
      out += escaped(text.substr(i, c.length), c.code_point, c.valid);
    }
    i += c.length;
    if (out.size() + kEllipsis.size() <= max_bytes) fits = out.size();
    if (out.size() > max_bytes) {
      out.resize(fits);
      if (max_bytes >= kEllipsis.size()) out += kEllipsis;
      return out;
    }
  }
  return out;
}

std::string in_quotes(std::string_view text, std::size_t max_bytes) {
  std::string out = escape_for_terminal(text, max_bytes);
  out.insert(out.begin(), '"');
  out.push_back('"');
  return out;
}

std::string format_error(const Error::Parts& parts) {
  // Long enough for any path and any list of supported names, short enough to stay a line.
  constexpr std::size_t kMaxPart = 1200;
  std::string line;
  const auto escape = [](const std::string& part) { return escape_for_terminal(part, kMaxPart); };
  if (!parts.file.empty()) line += escape(parts.file) + ": ";
  if (!parts.where.empty()) line += escape(parts.where) + ": ";
  line += escape(parts.found);
  if (!parts.expected.empty()) {
    const bool says_so = parts.expected.starts_with("expected");
    line += (says_so ? "; " : "; expected ") + escape(parts.expected);
  }
  if (!parts.hint.empty()) line += "; hint: " + escape(parts.hint);
  return line;
}

Error::Error(Parts parts) : std::runtime_error(format_error(parts)), parts_(std::move(parts)) {}

}  // namespace kvscope
