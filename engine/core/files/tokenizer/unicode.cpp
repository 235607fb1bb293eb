#include "engine/core/files/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kvscope {
namespace {

struct ClassRange {
  char32_t first, last;
  std::uint8_t bits;
};
#include "engine/core/files/tokenizer/unicode_exceptions.inc"

constexpr char32_t kEnd = 0xE1000, kGap = 0x34000, kAfterGap = 0xE0000;  // outside: unassigned or for private use
constexpr std::uint8_t kClassMask = 3, kWordBit = 4, kNewerNumberBit = 8, kHeadBit = 16, kTailBit = 32;

std::uint8_t of_category(utf8proc_category_t category) {
  const auto among = [category](auto first, auto last) { return category >= first && category <= last; };
  const auto bits = [](CharClass c) { return static_cast<std::uint8_t>(c); };
  if (among(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO)) {
    const bool head = category != UTF8PROC_CATEGORY_LL;
    const bool tail = category != UTF8PROC_CATEGORY_LU && category != UTF8PROC_CATEGORY_LT;
    return bits(CharClass::letter) | kWordBit | (head ? kHeadBit : 0) | (tail ? kTailBit : 0);
  }
  if (among(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL)) return bits(CharClass::number) | kWordBit;
  if (category == UTF8PROC_CATEGORY_NO) return bits(CharClass::number);
  if (among(UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP)) return bits(CharClass::space);
  if (among(UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME)) return kWordBit | kHeadBit | kTailBit;
  return category == UTF8PROC_CATEGORY_PC ? kWordBit : 0;
}

/// One byte a code point: 0.9 MB, of which a text touches the pages of its scripts.
std::vector<std::uint8_t> make_table() {
  std::array<std::uint8_t, UTF8PROC_CATEGORY_CO + 1> of_categories{};
  for (std::size_t i = 0; i < of_categories.size(); ++i) {
    of_categories[i] = of_category(static_cast<utf8proc_category_t>(i));
  }
  std::vector<std::uint8_t> table(kEnd);
  for (char32_t c = 0; c < kEnd; c = c + 1 == kGap ? kAfterGap : c + 1) {
    table[c] = of_categories[static_cast<std::size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)))];
  }
  for (const ClassRange& range : kClassRanges) {
    std::fill(table.begin() + range.first, table.begin() + range.last + 1, range.bits);
  }
  return table;
}

std::uint8_t properties(char32_t c) {
  static const std::vector<std::uint8_t> table = make_table();
  return c < kEnd ? table[c] : 0;
}

}  // namespace

CharClass char_class_past_ascii(char32_t c) { return static_cast<CharClass>(properties(c) & kClassMask); }
WordPart word_part(char32_t c) { return {(properties(c) & kHeadBit) != 0, (properties(c) & kTailBit) != 0}; }
bool is_numeric(char32_t c) { return char_class(c) == CharClass::number || (properties(c) & kNewerNumberBit) != 0; }
bool is_word_char(char32_t c) { return (properties(c) & kWordBit) != 0; }
std::span<const CodePointRange> past_nfc() { return kPastNfc; }

}  // namespace kvscope
