#include "engine/core/files/tokenizer/template_code.h"

#include <algorithm>

#include "engine/core/files/tokenizer/template_text.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using Token = TemplateToken;
using TokenKind = TemplateToken::Kind;

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMaxTokens = 400;  // of a tag, as deep as its expression may be nested

bool is_one_of(char c, std::string_view list) { return list.find(c) != kNone; }
bool is_space(char c) { return is_one_of(c, " \t\r\n\v\f"); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

/// Jinja takes every line end for \n, in strings too, and drops the last one.
std::string with_line_ends(std::string_view jinja) {
  std::string text;
  text.reserve(jinja.size());
  for (std::size_t i = 0; i < jinja.size(); ++i) {
    if (jinja[i] == '\r' && i + 1 < jinja.size() && jinja[i + 1] == '\n') continue;
    text += jinja[i] == '\r' ? '\n' : jinja[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::vector<TemplateTag> read() {
    while (at_ < text_.size()) {
      const std::size_t open = next_tag();
      add_data(text_.substr(at_, open - at_), open);
      if (open == text_.size()) break;
      const char kind = text_[open + 1];
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (kind == '%' && skip_raw_tag("raw")) {
        read_raw();
        continue;
      }
      if (kind == '#') {
        skip_comment();
      } else {
        read_tag(kind == '%');
      }
    }
    return std::move(tags_);
  }

 private:
  enum class After { nothing, block, stripping };  // what the tag before does to the text that follows

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < text_.size(); ++i) {
      if (text_[i] == '{' && is_one_of(text_[i + 1], "{%#")) return i;
    }
    return text_.size();
  }

  void add_data(std::string_view data, std::size_t open) {
    if (after_ == After::stripping) {
      data = strip_python(data, true, false);
    } else if (after_ == After::block && data.starts_with('\n')) {
      data.remove_prefix(1);
    }
    const bool at_tag = open < text_.size();
    const char sign = at_tag && open + 2 < text_.size() ? text_[open + 2] : '\0';
    if (at_tag && sign == '-') {
      data = strip_python(data, false, true);
    } else if (at_tag && text_[open + 1] != '{' && sign != '+') {
      strip_indent(data, open);
    }
    if (!data.empty()) tags_.push_back({false, {{TokenKind::text, std::string(data)}}});
  }

  /// Past "raw %}" or "endraw %}" at at_; false if something else is there. What follows {% raw %} keeps its line end.
  bool skip_raw_tag(std::string_view word) {
    std::size_t at = at_;
    const auto skip_spaces = [&] {
      while (at < text_.size() && is_space(text_[at])) ++at;
    };
    skip_spaces();
    if (!text_.substr(at).starts_with(word)) return false;
    at += word.size();
    skip_spaces();
    if (at == text_.size() || !ends(true, at)) return false;
    if (word == "raw" && after_ == After::block) after_ = After::nothing;
    return true;
  }

  void read_raw() {
    for (std::size_t open = at_;;) {
      open = text_.find("{%", open);
      if (open == kNone) template_fail("it cannot be read: {% raw %} is not closed");
      const std::size_t begin = at_;
      const After before = after_;
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      const bool closes = skip_raw_tag("endraw");
      const std::size_t past = at_;
      const After next = after_;
      at_ = begin, after_ = before;
      if (closes) {
        add_data(text_.substr(at_, open - at_), open);
        at_ = past, after_ = next;
        return;
      }
      open += 2;
    }
  }

  /// lstrip_blocks: blanks between the line's start and a block tag. Looked for after the last tag only: that one's
  /// brace is no blank, and a line of a million tags would be gone through a million times.
  void strip_indent(std::string_view& data, std::size_t open) const {
    const std::string_view before_tag = text_.substr(at_, open - at_);
    const std::size_t line_end = before_tag.rfind('\n');
    if (line_end == kNone && at_ > 0) return;
    const std::string_view indent = line_end == kNone ? before_tag : before_tag.substr(line_end + 1);
    if (!strip_python(indent, true, false).empty()) return;
    data.remove_suffix(std::min(indent.size(), data.size()));
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == kNone) template_fail("it cannot be read: a comment is not closed");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    after_ = sign == '-' ? After::stripping : sign == '+' ? After::nothing : After::block;
    at_ = end + 2;
  }

  /// Whether the tag ends at `at`; at_ is past it if so.
  bool ends(bool is_block, std::size_t at) {
    const std::string_view close = is_block ? "%}" : "}}", rest = text_.substr(at);
    const bool signed_end = (rest[0] == '-' || (rest[0] == '+' && is_block)) && rest.substr(1).starts_with(close);
    if (!signed_end && !rest.starts_with(close)) return false;
    at_ = at + close.size() + signed_end;
    after_ = !signed_end      ? (is_block ? After::block : After::nothing)
             : rest[0] == '-' ? After::stripping
                              : After::nothing;
    return true;
  }

  void read_tag(bool is_block) {
    TemplateTag tag{is_block, {}};
    std::string open;  // brackets
    while (at_ < text_.size()) {
      if (open.empty() && ends(is_block, at_)) {
        tags_.push_back(std::move(tag));
        return;
      }
      if (is_space(text_[at_])) {
        ++at_;
        continue;
      }
      if (tag.tokens.size() == kMaxTokens) template_fail("it has a tag of more than 400 words and signs");
      tag.tokens.push_back(read_token());
      const Token& token = tag.tokens.back();
      if (token.kind != TokenKind::sign) continue;
      if (is_one_of(token.text[0], "([{")) open += token.text[0] == '(' ? ')' : token.text[0] == '[' ? ']' : '}';
      if (!is_one_of(token.text[0], ")]}")) continue;
      if (open.empty() || open.back() != token.text[0]) template_fail("it cannot be read: a bracket in " + spell(tag));
      open.pop_back();
    }
    template_fail("it cannot be read: a tag is not closed");
  }

  Token read_token() {
    const char c = text_[at_];
    if (c == '\'' || c == '"') return {TokenKind::text, read_string()};
    const std::size_t begin = at_;
    if (is_word(c)) {
      if (is_digit(c)) return read_number();
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      return {TokenKind::name, std::string(text_.substr(begin, at_ - begin))};
    }
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (text_.substr(at_).starts_with(two)) return at_ += 2, Token{TokenKind::sign, std::string(two)};
    }
    if (!is_one_of(c, "+-*/%~[](){}<>=.:|,")) template_fail("it cannot be read: a character in a tag");
    return ++at_, Token{TokenKind::sign, std::string(1, c)};
  }

  /// Digits, or digits with a fraction or an exponent.
  Token read_number() {
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    const auto is_digit_at = [&](std::size_t at) { return at < text_.size() && is_digit(text_[at]); };
    digits();
    if (at_ < text_.size() && text_[at_] == '.' && is_digit_at(at_ + 1)) ++at_, digits();
    if (at_ < text_.size() && (text_[at_] | 0x20) == 'e') {
      const bool has_sign = at_ + 1 < text_.size() && is_one_of(text_[at_ + 1], "+-");
      if (is_digit_at(at_ + 1 + has_sign)) at_ += 1 + has_sign, digits();
    }
    const std::size_t end = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    const bool is_whole = std::all_of(word.begin(), word.end(), is_digit);
    if (at_ != end || (is_whole && (word.size() > 15 || (word[0] == '0' && word.size() > 1)))) {
      template_fail("it uses the number " + word);
    }
    return {TokenKind::number, word};
  }

  /// The string that begins at at_, and past it.
  std::string read_string() {
    std::string text;
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        read_escape(text);
      } else {
        text += c;
      }
    }
    if (at_++ >= text_.size()) template_fail("it cannot be read: a string is not closed");
    return text;
  }

  /// Python's, after the backslash. An escape that Python does not have stays as it is.
  void read_escape(std::string& out) {
    constexpr std::string_view kNames = "ntr\\'\"abfv", kCharacters = "\n\t\r\\'\"\a\b\f\v";
    const char c = text_[at_++];
    if (const std::size_t i = kNames.find(c); i != kNone) {
      out += kCharacters[i];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_code(out, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N' || is_digit(c)) {
      template_fail("it cannot be read: an escape in a string");
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }

  void append_code(std::string& out, std::size_t n_digits) {
    char32_t code = 0;
    for (std::size_t i = 0; i < n_digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : 16;
      code = digit < 16 && code < 0x110000 ? code * 16 + static_cast<char32_t>(digit) : 0x110000;
    }
    const bool is_half = code >= 0xD800 && code <= 0xDFFF;
    if (code > 0x10FFFF || is_half) template_fail("it cannot be read: an escape in a string");
    append_utf8(out, code);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  After after_ = After::nothing;
  std::vector<TemplateTag> tags_;
};

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out += "'";
}

}  // namespace

std::vector<TemplateTag> read_template_tags(std::string_view jinja) {
  const std::string text = with_line_ends(jinja);
  return Reader(text).read();
}

std::string spell(const TemplateTag& tag) {
  std::string out = tag.is_block ? "{%" : "{{";
  for (const Token& token : tag.tokens) {
    if (is_word(out.back()) && token.kind != TokenKind::sign && token.kind != TokenKind::text) out += ' ';
    out += token.kind == TokenKind::text ? quoted(token.text) : token.text;
  }
  return out += tag.is_block ? "%}" : "}}";
}

}  // namespace kvscope
