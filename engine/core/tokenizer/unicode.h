#pragma once
// Classes of characters as the `tokenizers` package's regular expressions see them.

#include <cstdint>

namespace kvscope {

/// Disjoint, as \p{L}, \p{N} and \s are; everything else is `other`.
enum class CharClass : std::uint8_t { other, letter, number, space };

/// Any value is allowed; past U+10FFFF is `other`.
CharClass char_class(char32_t c);
/// \w of the engine that decides whether an added token stands alone as a word.
bool is_word_char(char32_t c);

}  // namespace kvscope
