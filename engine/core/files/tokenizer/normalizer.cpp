#include "engine/core/files/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/core/files/tokenizer/unicode.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

constexpr char32_t kEnd = 0x30000;  // nothing from there on changes

enum class Part : std::uint8_t {
  still,   // in form C wherever it is; may be the base of what follows
  active,  // a mark, or decomposes, or may compose with what is before it
  newer    // still, and nothing composes with it
};

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

void append_decomposed(CodePoints& out, char32_t c) {
  utf8proc_int32_t parts[4];
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 4, UTF8PROC_DECOMPOSE, &boundary);
  out.insert(out.end(), parts, parts + n);
}

void compose(CodePoints& text) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto n = utf8proc_normalize_utf32(text.data(), static_cast<utf8proc_ssize_t>(text.size()), kOptions);
  text.resize(static_cast<std::size_t>(n));
}

std::vector<Part> make_table() {
  std::vector<Part> table(kEnd, Part::still);
  for (const CodePointRange& range : past_nfc()) {
    std::fill(table.begin() + range.first, table.begin() + range.last + 1, Part::newer);
  }
  std::vector<std::pair<char32_t, CodePoints>> composites;  // that decompose and compose back again
  for (char32_t c = 0; c < kEnd; ++c) {
    if (table[c] == Part::newer) continue;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    const bool decomposes = property->decomp_type == 0 && property->decomp_seqindex != UINT16_MAX;
    if (!decomposes && property->combining_class == 0) continue;
    table[c] = Part::active;
    if (property->combining_class != 0) continue;
    CodePoints parts;
    append_decomposed(parts, c);
    CodePoints composed = parts;
    compose(composed);
    if (composed == CodePoints{static_cast<utf8proc_int32_t>(c)}) composites.emplace_back(c, std::move(parts));
  }
  for (char32_t c = 0x1161; c < 0x1176; ++c) table[c] = Part::active;  // Hangul's vowels and trailing consonants
  for (char32_t c = 0x11A8; c < 0x11C3; ++c) table[c] = Part::active;
  for (const auto& [c, parts] : composites) table[static_cast<std::size_t>(parts.back())] = Part::active;
  // A composite is still unless its first part may go with what is before it.
  for (const auto& [c, parts] : composites) {
    if (table[static_cast<std::size_t>(parts.front())] == Part::still) table[c] = Part::still;
  }
  return table;
}

Part part(char32_t c) {
  static const std::vector<Part> table = make_table();
  return c < kEnd ? table[c] : Part::still;
}

/// Marks between two characters of class 0 in the order of their classes; equal classes keep their order. utf8proc takes
/// quadratic time for that.
void order_marks(CodePoints& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, text.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(at, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void append_nfc(std::string& out, CodePoints& text) {
  order_marks(text);
  compose(text);
  for (const auto c : text) append_utf8(out, static_cast<char32_t>(c));
  text.clear();
}

bool is_active_at(std::string_view text, std::size_t i) {
  const Utf8Char c = decode_utf8(text, i);
  return c.valid && part(c.code_point) == Part::active;
}

/// Where the first character from `i` on that may change begins, or the text's size.
std::size_t first_active(std::string_view text, std::size_t i) {
  while (i < text.size()) {
    // Everything below U+0300 stands still; what follows begins with a byte of at least 0xCC.
    if (static_cast<unsigned char>(text[i]) < 0xCC) {
      ++i;
    } else if (is_active_at(text, i)) {
      return i;
    } else {
      i += decode_utf8(text, i).length;
    }
  }
  return i;
}

/// Where the valid character that ends at `end` begins, if it begins at `from` or later and may compose; else `end`.
std::size_t previous_char(std::string_view text, std::size_t from, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && from + length <= end; ++length) {
    const Utf8Char c = decode_utf8(text.substr(0, end), end - length);
    if (c.valid && c.length == length) return part(c.code_point) == Part::newer ? end : end - length;
  }
  return end;
}

}  // namespace

bool is_surely_nfc(std::string_view text) { return first_active(text, 0) == text.size(); }

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  CodePoints changing;
  // What stands still divides the text: only from the last such character before an active one to the next such one can
  // anything change.
  std::size_t done = 0;
  for (std::size_t active = first_active(text, 0); active < text.size(); active = first_active(text, done)) {
    std::size_t i = previous_char(text, done, active);
    out += text.substr(done, i - done);
    do {
      const Utf8Char c = decode_utf8(text, i);
      if (!c.valid) break;
      append_decomposed(changing, c.code_point);
      i += c.length;
    } while (i < text.size() && (i <= active || is_active_at(text, i)));
    append_nfc(out, changing);
    done = i;
  }
  return out += text.substr(done);
}

}  // namespace kvscope
