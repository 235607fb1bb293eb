#pragma once
// Classes of characters as the `tokenizers` package's regular expressions see them: Unicode 16.0, whichever version utf8proc
// has. Where the two differ: unicode_exceptions.inc.

#include <cstdint>
#include <span>

namespace kvscope {

/// Disjoint, as \p{L}, \p{N} and \s are; everything else is `other`.
enum class CharClass : std::uint8_t { other, letter, number, space };

CharClass char_class_past_ascii(char32_t c);

/// Any value is allowed; past U+10FFFF is `other`.
inline CharClass char_class(char32_t c) {
  if (c >= 0x80) return char_class_past_ascii(c);
  if ((c | 0x20) - 'a' < 26) return CharClass::letter;
  if (c - '0' < 10) return CharClass::number;
  return c == ' ' || c - '\t' < 5 ? CharClass::space : CharClass::other;
}
/// Letters and marks by their place in a word of mixed case: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and
/// [\p{Ll}\p{Lm}\p{Lo}\p{M}]. Some are both.
struct WordPart {
  bool head = false, tail = false;
};
WordPart word_part(char32_t c);
/// What Digits takes for a number: all of \p{N}, and those of a newer Unicode.
bool is_numeric(char32_t c);
/// \w of the engine that decides whether an added token stands alone as a word.
bool is_word_char(char32_t c);

struct CodePointRange {
  char32_t first, last;
};
/// Newer than the package's normal form C, which is that of Unicode 9.0: neither changed, nor ordered, nor composed.
std::span<const CodePointRange> past_nfc();

}  // namespace kvscope
