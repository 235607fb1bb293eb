#include "engine/core/study/measure/token_kind.h"

#include <algorithm>

#include "engine/core/study/measure/token_pattern.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// ASCII and Latin-1, Greek, Cyrillic. A locale's own idea of it would give other bytes on another machine.
bool is_upper_letter(char32_t c) {
  return (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
         (c >= 0x400 && c <= 0x42f);
}

bool is_special_text(std::string_view piece) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  return piece.empty() ||
         (piece.size() >= 3 && piece.starts_with('<') && piece.ends_with('>') && std::ranges::none_of(piece, is_blank));
}

}  // namespace

TokenKind kind_of(std::string_view piece) {
  if (is_special_text(piece)) return TokenKind::special;
  if (is_of_class(piece, TokenClass::space)) return TokenKind::space;
  bool digit = false, letter = false, upper = false;
  for (std::size_t at = 0; at < piece.size();) {
    const Utf8Char c = decode_utf8(piece, at);
    const std::string_view character = piece.substr(at, c.length);
    at += c.length;
    digit = digit || is_of_class(character, TokenClass::num);
    if (letter || (c.valid && !is_of_class(character, TokenClass::word))) continue;
    letter = true, upper = c.valid && is_upper_letter(c.code_point);
  }
  if (digit) return TokenKind::digits;
  if (letter) return upper ? TokenKind::capitalised : TokenKind::word;
  return TokenKind::punctuation;
}

std::vector<TokenKind> token_kinds(const RunRecord& run) {
  std::vector<TokenKind> kinds(run.ids.size(), TokenKind::special);
  for (std::size_t t = 0; t < std::min(kinds.size(), run.pieces.size()); ++t) kinds[t] = kind_of(run.pieces[t]);
  return kinds;
}

}  // namespace kvscope
