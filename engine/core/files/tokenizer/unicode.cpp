#include "engine/core/files/tokenizer/unicode.h"

#include <vector>

namespace kvscope {
namespace {

struct CodePointRange {
  char32_t first, last;
};
#include "engine/core/files/tokenizer/unicode_tables.inc"

constexpr char32_t kEnd = 0x110000;
constexpr std::uint8_t kClassMask = 3, kWordBit = 4, kNewerNumberBit = 8;

/// One byte a code point: 1.1 MB, of which a text touches the pages of its scripts.
std::vector<std::uint8_t> make_table() {
  std::vector<std::uint8_t> table(kEnd, 0);
  const auto mark = [&](const auto& ranges, std::uint8_t bits) {
    for (const CodePointRange& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) table[c] |= bits;
    }
  };
  mark(kLetterRanges, static_cast<std::uint8_t>(CharClass::letter));
  mark(kNumberRanges, static_cast<std::uint8_t>(CharClass::number));
  mark(kSpaceRanges, static_cast<std::uint8_t>(CharClass::space));
  mark(kWordRanges, kWordBit);
  mark(kNewerNumberRanges, kNewerNumberBit);
  return table;
}

std::uint8_t properties(char32_t c) {
  static const std::vector<std::uint8_t> table = make_table();
  return c < kEnd ? table[c] : 0;
}

}  // namespace

CharClass char_class_past_ascii(char32_t c) { return static_cast<CharClass>(properties(c) & kClassMask); }
bool is_numeric(char32_t c) { return char_class(c) == CharClass::number || (properties(c) & kNewerNumberBit) != 0; }
bool is_word_char(char32_t c) { return (properties(c) & kWordBit) != 0; }

}  // namespace kvscope
