#pragma once
// SentencePiece's way with blanks: a blank is written U+2581, and a text may get one before it.

#include <string>
#include <string_view>

namespace kvscope {

inline constexpr std::string_view kBlankMark = "\u2581";

struct BlankRule {
  enum class Prefix {
    none,
    every,            // the normaliser's Prepend: before every part, whatever it begins with
    missing,          // Metaspace's "always": before parts that do not begin with one
    missing_at_start  // Metaspace's "first": the same, but only where the text begins
  };
  bool marks = false;  // " " becomes the mark
  Prefix prefix = Prefix::none;
  bool changes() const { return marks || prefix != Prefix::none; }
};

/// `text` as the rule writes it; `at_start`: the text begins with it. An empty text stays empty. O(length).
std::string mark_blanks(const BlankRule& rule, std::string_view text, bool at_start);

/// Length in bytes of `text` up to the next mark past its first byte, or all of it; `text` must not be empty. Cuts
/// before every mark, or, with `runs`, only before the first of several.
std::size_t length_to_mark(std::string_view text, bool runs);

/// What a token prints in the midst of a text: blanks for marks, and the byte for <0x41>.
std::string printed_token(std::string_view token);
/// The token of a byte: <0x0A>.
std::string byte_token(unsigned char byte);

}  // namespace kvscope
