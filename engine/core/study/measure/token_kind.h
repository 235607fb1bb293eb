#pragma once
// Each token in exactly one kind, by its text alone: what heads are held against that keep some texts longer than others.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

enum class TokenKind : std::uint8_t { digits, capitalised, word, punctuation, space, special };
inline constexpr int kTokenKinds = 6;
/// In the order of TokenKind.
inline constexpr std::string_view kTokenKindNames[kTokenKinds] = {"digits",      "capitalised", "words",
                                                                  "punctuation", "white space", "special"};

/// The first that holds:
///
///     special      no text, or <...> of at least three bytes without white space: "<s>", "<|im_end|>", "<think>"
///     space        nothing but white space and ends of lines
///     digits       a digit in it: " 42", "3.", "x2"
///     capitalised  its first letter is upper case (Latin-1, Greek, Cyrillic): " Paris", "(The"
///     word         a letter in it, or a part of a character: " the", "ing", "'s"
///     punctuation  anything else: ",", " \"", "+="
TokenKind kind_of(std::string_view piece);
/// Of each token.
std::vector<TokenKind> token_kinds(const RunRecord& run);

}  // namespace kvscope
