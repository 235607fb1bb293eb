#pragma once
// What a search asks of one token's text alone: a regular expression, or what kind of text it is.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace kvscope {

/// A regular expression (ECMAScript, over bytes) that is found in a token's text, for a stranger's patterns: none takes
/// longer than its length times the text's, and what would need more memory is refused.
class TokenPattern {
 public:
  /// Upper and lower case alike unless a letter outside of escapes is upper. Throws Error (usage) in one line.
  explicit TokenPattern(std::string_view pattern);
  bool matches(std::string_view piece) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

enum class TokenClass : std::uint8_t {
  num,     // digits alone
  word,    // letters alone
  space,   // nothing but white space
  punct,   // punctuation and other signs alone
  newline  // an end of line in it
};
/// In the order of TokenClass.
inline constexpr std::string_view kTokenClasses[] = {"num", "word", "space", "punct", "newline"};

/// White space around digits, letters and signs is not looked at: " the" is a word. A part of a character is of no class.
bool is_of_class(std::string_view piece, TokenClass wanted);

}  // namespace kvscope
