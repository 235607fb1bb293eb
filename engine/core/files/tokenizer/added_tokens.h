#pragma once
// Tokens that are found in text before it is cut into words: <|im_start|> and the like.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for after normalisation, its own content normalised too
  bool special = false;
  auto operator<=>(const AddedToken&) const = default;
  /// Written by templates, not by people: special, or of the form <...> (Qwen3's <think> is not special).
  bool is_markup() const { return special || (content.starts_with('<') && content.ends_with('>')); }
};

/// Which added tokens are read in a text; the others stay text.
enum class ReadTokens {
  all,
  not_special,  // the `tokenizers` package's encode_special_tokens
  not_markup,   // for what a person typed in a chat
};

/// Finds tokens from left to right, at each place the longest, without overlap.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// Copies; `contents[i]` is what token i looks like in the text. Empty contents are never found.
  AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> contents);

  struct Part {
    std::string_view text;
    std::int32_t id = -1;  // -1: ordinary text
  };
  /// Appends the parts of `text`, which together are all of it.
  /// `may_read`: whether a token that is found at text[start, stop) is one; null: as `read` has it.
  using MayRead = std::function<bool(const AddedToken&, std::size_t start, std::size_t stop)>;
  void split(std::string_view text, ReadTokens read, std::vector<Part>& parts, const MayRead& may_read = {}) const;

 private:
  struct Pattern {
    std::string text;
    AddedToken token;
  };
  const Pattern* longest_at(std::string_view text) const;
  std::vector<Pattern> patterns_;  // sorted by text
  bool begins_one_[256] = {};      // some pattern begins with this byte
};

}  // namespace kvscope
