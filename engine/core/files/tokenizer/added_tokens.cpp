#include "engine/core/files/tokenizer/added_tokens.h"

#include <algorithm>

#include "engine/core/files/tokenizer/unicode.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// Where the last character of text[0, end) begins; end > 0.
std::size_t last_char(std::string_view text, std::size_t end) {
  for (std::size_t length = 2; length <= 4 && length <= end; ++length) {
    const Utf8Char c = decode_utf8(text.substr(0, end), end - length);
    if (c.valid && c.length == length) return end - length;
  }
  return end - 1;
}

bool is_word_at(std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return c.valid && is_word_char(c.code_point);
}

bool is_space_at(std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return c.valid && char_class(c.code_point) == CharClass::space;
}

bool touches_word(std::string_view text, std::size_t start, std::size_t stop) {
  return (start > 0 && is_word_at(text, last_char(text, start))) || (stop < text.size() && is_word_at(text, stop));
}

bool stays_text(const AddedToken& token, ReadTokens read) {
  return (read == ReadTokens::not_special && token.special) || (read == ReadTokens::not_markup && token.is_markup());
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, std::vector<std::string> contents) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (contents[i].empty()) continue;
    begins_one_[static_cast<unsigned char>(contents[i][0])] = true;
    patterns_.push_back({std::move(contents[i]), std::move(tokens[i])});
  }
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.text < b.text; });
}

const AddedTokenFinder::Pattern* AddedTokenFinder::longest_at(std::string_view text) const {
  // [first, last) are the patterns that agree with the text in their first `depth` bytes.
  const Pattern* longest = nullptr;
  auto first = patterns_.begin(), last = patterns_.end();
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_of = [depth](const Pattern& p) { return static_cast<unsigned char>(p.text[depth]); };
    first = std::partition_point(first, last, [&](const Pattern& p) { return byte_of(p) < byte; });
    last = std::partition_point(first, last, [&](const Pattern& p) { return byte_of(p) == byte; });
    // Sorted: a pattern that ends here comes before those that go on.
    // Of patterns alike the first counts.
    if (first != last && first->text.size() == depth + 1) longest = &*first;
    while (first != last && first->text.size() == depth + 1) ++first;
    if (first == last) break;
  }
  return longest;
}

void AddedTokenFinder::split(std::string_view text, ReadTokens read, std::vector<Part>& parts,
                             const MayRead& may_read) const {
  std::size_t done = 0;  // parts cover text[0, done)
  for (std::size_t at = 0; at < text.size() && !patterns_.empty();) {
    if (!begins_one_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Pattern* found = longest_at(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    // May begin before `done`, in the white space that another's rstrip took: the package reads it all the same.
    std::size_t start = at, stop = at + found->text.size();
    at = stop;  // also past a match that is then discarded: a shorter token inside it is not found either
    if (may_read ? !may_read(found->token, start, stop) : stays_text(found->token, read)) continue;
    if (found->token.single_word && touches_word(text, start, stop)) continue;
    if (found->token.lstrip) {
      while (start > done && is_space_at(text, last_char(text, start))) start = last_char(text, start);
    }
    if (found->token.rstrip) {
      while (stop < text.size() && is_space_at(text, stop)) stop += decode_utf8(text, stop).length;
    }
    if (start > done) parts.push_back({text.substr(done, start - done), -1});
    parts.push_back({text.substr(start, stop - start), found->token.id});
    done = stop;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
}

}  // namespace kvscope
