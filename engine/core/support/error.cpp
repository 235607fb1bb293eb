#include "engine/core/support/error.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

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

namespace {

/// Escaped text without its middle, so that of a path the name stays and of a sentence its end.
std::string without_middle(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  std::size_t head = (max_bytes - kEllipsis.size()) / 2, tail = text.size() - (max_bytes - kEllipsis.size() - head);
  while (head > 0 && is_inside(head)) --head;
  while (tail < text.size() && is_inside(tail)) ++tail;
  return text.substr(0, head).append(kEllipsis) + text.substr(tail);
}

}  // namespace

std::string format_error(const Error::Parts& parts) {
  // With "error: " before it no line is longer than 400 bytes, whatever of a stranger's text it repeats.
  constexpr std::size_t kMaxLine = 390, kLeast = 60;
  constexpr std::size_t kMaxEscaped = std::size_t{1} << 16;  // of which the middle is cut
  std::string file = escape_for_terminal(parts.file, kMaxEscaped),
              where = escape_for_terminal(parts.where, kMaxEscaped),
              found = escape_for_terminal(parts.found, kMaxEscaped),
              expected = escape_for_terminal(parts.expected, kMaxEscaped),
              hint = escape_for_terminal(parts.hint, kMaxEscaped);
  if (!file.empty()) file += ": ";
  if (!where.empty()) where += ": ";
  if (!expected.empty()) expected.insert(0, expected.starts_with("expected") ? "; " : "; expected ");
  if (!hint.empty()) hint.insert(0, "; hint: ");
  // What was found, and where, is mostly a stranger's text; what is expected, and a hint, mostly ours.
  std::string* const theirs[] = {&found, &where, &file};
  std::string* const all[] = {&file, &where, &found, &expected, &hint};
  const auto size = [&] { return file.size() + where.size() + found.size() + expected.size() + hint.size(); };
  const auto cut_longest = [&](std::span<std::string* const> some) {
    while (size() > kMaxLine) {
      std::string& longest = **std::ranges::max_element(some, {}, [](const std::string* part) { return part->size(); });
      if (longest.size() <= kLeast) return;
      const std::size_t excess = size() - kMaxLine;
      longest = without_middle(longest, std::max(kLeast, longest.size() - std::min(excess, longest.size())));
    }
  };
  cut_longest(theirs), cut_longest(all);
  return file + where + found + expected + hint;
}

Error::Error(Parts parts) : std::runtime_error(format_error(parts)), parts_(std::move(parts)) {}

}  // namespace kvscope
