#include "engine/core/files/weights/module_pattern.h"

#include <cctype>
#include <string_view>

#include "engine/core/support/refuse.h"
#include "engine/core/support/regex_states.h"

namespace kvscope {
namespace {

constexpr std::size_t kMostPattern = 1000, kMostStates = 2000;

/// Walks a pattern once. What it lets through is the language that Python's re and ECMAScript share.
class SharedSyntax {
 public:
  explicit SharedSyntax(std::string_view pattern) : text_(pattern) {}

  /// The first piece that is not shared; empty if there is none.
  std::string odd() {
    bool repeatable = false;  // there is something before that a repetition can repeat
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const std::size_t from = at_;
      bool good = true;
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        good = repeatable && repetition();
        repeatable = false;
      } else if (c == '(') {
        good = group();
        repeatable = false;
      } else {
        repeatable = c != '|' && c != '^' && c != '$';
        if (c == '\\') {
          if (at_ + 1 < text_.size() && (text_[at_ + 1] == 'b' || text_[at_ + 1] == 'B')) repeatable = false;
          good = escape("dDwWsSbB");
        } else if (c == '[') {
          good = set();
        } else {
          good = is_plain(c) || c == '.' || c == '|' || c == '^' || c == '$' || c == ')';
          ++at_;
        }
      }
      if (!good) return std::string(text_.substr(from, 8));
    }
    return "";
  }

 private:
  static bool is_plain(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/' || c == ':' || c == ',';
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool group() {
    ++at_;
    if (!next_is('?')) return true;
    ++at_;
    if (!next_is(':') && !next_is('=') && !next_is('!')) return false;
    ++at_;
    return true;
  }

  bool escape(std::string_view letters) {
    ++at_;
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    return letters.find(c) != letters.npos || std::string_view(".-_/[](){}*+?|^$\\").find(c) != std::string_view::npos;
  }

  bool set() {
    ++at_;
    if (next_is('^')) ++at_;
    if (next_is(']')) return false;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (text_[at_] == '\\') {
        if (!escape("dw")) return false;
      } else {
        if (!is_plain(text_[at_]) && text_[at_] != '.' && text_[at_] != '|') return false;
        ++at_;
      }
    }
    return at_++ < text_.size();
  }

  /// "*", "+?", "{2,3}"; neither another repetition after it, which Python refuses, nor a possessive "+".
  bool repetition() {
    if (text_[at_] == '{') {
      const std::size_t end = text_.find('}', at_);
      if (end == text_.npos) return false;
      const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
      if (inside.empty() || inside[0] == ',' || inside.find_first_not_of("0123456789,") != inside.npos) return false;
      at_ = end;
    }
    ++at_;
    if (next_is('?')) ++at_;
    return !next_is('*') && !next_is('+') && !next_is('?') && !next_is('{');
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::regex::flag_type flags() {
#ifdef __GLIBCXX__
  return std::regex::ECMAScript | std::regex_constants::__polynomial;  // else (a*)*b never ends
#else
  return std::regex::ECMAScript;
#endif
}

}  // namespace

ModulePattern::ModulePattern(const std::string& pattern, Match match, const std::string& file, const std::string& key)
    : states_(regex_states(pattern, kMostStates)) {
  const auto fail = [&](const std::string& found) {
    refuse(file, key, found, "a list of modules' names, or a plain regular expression",
           "write the names of the modules as a list");
  };
  if (pattern.size() > kMostPattern || states_ > kMostStates) fail("a regular expression that is too large");
  if (const std::string odd = SharedSyntax(pattern).odd(); !odd.empty())
    fail("a regular expression that may mean something else in Python, at " + in_quotes(odd));
  try {
    regex_ = std::regex(match == Match::end ? "(?:.*\\.)?(?:" + pattern + ")" : pattern, flags());
  } catch (const std::regex_error& error) {
    fail(in_quotes(pattern) + ", not a regular expression");
  }
}

}  // namespace kvscope
