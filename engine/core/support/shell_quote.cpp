#include "engine/core/support/shell_quote.h"

#include <algorithm>
#include <cctype>

namespace kvscope {

std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_quote(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  return single_quoted(word);
}

std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false, in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ' && !in_quotes) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (line[i] == '\'') {
      in_quotes = !in_quotes;
    } else if (line[i] == '\\' && !in_quotes && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += line[i];
    }
  }
  return words;
}

}  // namespace kvscope
