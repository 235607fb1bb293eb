#include "engine/core/study/measure/token_pattern.h"

#include <regex>
#include <string>

#include "engine/core/support/error.h"
#include "engine/core/support/regex_states.h"
#include "engine/core/support/trim.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr std::size_t kMostPattern = 200, kMostText = 256;  // bytes; a token is short
constexpr std::size_t kMostStates = 2000;

[[noreturn]] void refuse_pattern(std::string_view pattern, const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .where = "find",
               .found = in_quotes("/" + std::string(pattern) + "/"),
               .expected = expected});
}

bool has_upper(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] >= 'A' && pattern[i] <= 'Z') {
      return true;
    }
  }
  return false;
}

std::regex::flag_type flags_of(std::string_view pattern) {
  std::regex::flag_type flags = std::regex::ECMAScript;
  if (!has_upper(pattern)) flags |= std::regex::icase;
#ifdef __GLIBCXX__
  flags |= std::regex_constants::__polynomial;  // else (a*)*b takes the age of the universe over 60 letters
#endif
  return flags;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// Not all of Unicode's: the blocks that hold signs alone.
bool is_sign(char32_t c) {
  if (c < 0x80) return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
  return (c > 0xa0 && c < 0xc0 && c != 0xaa && c != 0xb5 && c != 0xba) || c == 0xd7 || c == 0xf7 ||
         (c > 0x200a && c < 0x2070) || (c >= 0x20a0 && c < 0x20d0) || (c >= 0x2190 && c < 0x2c00) ||
         (c > 0x3000 && c < 0x3004) || (c > 0x3007 && c < 0x3021) || (c >= 0xfe10 && c < 0xfe70) ||
         (c > 0xff00 && c < 0xff10) || (c > 0xff19 && c < 0xff21) || (c > 0xff3a && c < 0xff41) ||
         (c > 0xff5a && c < 0xff66) || c == 0xfffd || (c >= 0x1f000 && c < 0x1fb00);
}

bool is_digit(char32_t c) { return (c >= '0' && c <= '9') || (c >= 0xff10 && c <= 0xff19); }

}  // namespace

struct TokenPattern::Compiled {
  std::regex regex;
};

TokenPattern::TokenPattern(std::string_view pattern) {
  if (pattern.size() > kMostPattern) refuse_pattern(pattern.substr(0, 20), "200 bytes at most between the slashes");
  if (regex_states(pattern, kMostStates) > kMostStates)
    refuse_pattern(pattern, "a regular expression with fewer repetitions");
  try {
    compiled_ =
        std::make_shared<const Compiled>(Compiled{std::regex(pattern.begin(), pattern.end(), flags_of(pattern))});
  } catch (const std::regex_error& error) {
    refuse_pattern(pattern,
                   std::string("a regular expression between the slashes, or the text in quotes; ") + error.what());
  }
}

bool TokenPattern::matches(std::string_view piece) const {
  const std::string_view text = piece.substr(0, kMostText);
  return std::regex_search(text.begin(), text.end(), compiled_->regex);
}

bool is_of_class(std::string_view piece, TokenClass wanted) {
  bool any = false, spaces = true, all = true;
  for (std::size_t at = 0; at < piece.size();) {
    const Utf8Char c = decode_utf8(piece, at);
    at += c.length;
    if (!c.valid) return false;
    const char32_t point = c.code_point;
    if (wanted == TokenClass::newline && (point == '\n' || point == '\r')) return true;
    if (is_space(point)) continue;
    any = true, spaces = false;
    const bool digit = is_digit(point), sign = is_sign(point);
    all = all && (wanted == TokenClass::num     ? digit
                  : wanted == TokenClass::punct ? sign
                                                : !digit && !sign && point >= 'A');
  }
  if (wanted == TokenClass::newline) return false;
  if (wanted == TokenClass::space) return spaces && !piece.empty();
  return any && all;
}

}  // namespace kvscope
