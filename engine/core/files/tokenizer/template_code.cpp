#include "engine/core/files/tokenizer/template_code.h"

#include <algorithm>

namespace kvscope {
namespace {

using Token = TemplateToken;
using Kind = TemplateToken::Kind;

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMaxTokens = 400;  // of a tag, as deep as its expression may be nested

bool is_one_of(char c, std::string_view list) { return list.find(c) != kNone; }
bool is_space(char c) { return is_one_of(c, " \t\r\n\v\f"); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

[[noreturn]] void fail(std::string reason) { throw TemplateProblem{std::move(reason)}; }

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
      while (!data.empty() && is_space(data.front())) data.remove_prefix(1);
    } else if (after_ == After::block && data.starts_with('\n')) {
      data.remove_prefix(1);
    }
    const bool at_tag = open < text_.size();
    const char sign = at_tag && open + 2 < text_.size() ? text_[open + 2] : '\0';
    if (at_tag && sign == '-') {
      while (!data.empty() && is_space(data.back())) data.remove_suffix(1);
    } else if (at_tag && text_[open + 1] != '{' && sign != '+') {
      strip_indent(data, open);
    }
    // Python strips white space that is not ASCII too; text that may have some is not worth the table.
    const auto is_wide = [](char c) { return static_cast<unsigned char>(c) >= 0x80 || (c >= 0x1C && c <= 0x1F); };
    if (std::any_of(data.begin(), data.end(), is_wide)) fail("it prints text between its tags that is not ASCII");
    if (!data.empty()) tags_.push_back({false, {{Kind::text, std::string(data)}}});
  }

  /// lstrip_blocks: blanks between the line's start and a block tag. Looked for after the last tag only: that one's
  /// brace is no blank, and a line of a million tags would be gone through a million times.
  void strip_indent(std::string_view& data, std::size_t open) const {
    const std::string_view before_tag = text_.substr(at_, open - at_);
    const std::size_t line_end = before_tag.rfind('\n');
    if (line_end == kNone && at_ > 0) return;
    const std::string_view indent = line_end == kNone ? before_tag : before_tag.substr(line_end + 1);
    if (!std::all_of(indent.begin(), indent.end(), is_space)) return;
    data.remove_suffix(std::min(indent.size(), data.size()));
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == kNone) fail("it cannot be read: a comment is not closed");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    after_ = sign == '-' ? After::stripping : sign == '+' ? After::nothing : After::block;
    at_ = end + 2;
  }

  /// Whether the tag ends here; past it if so.
  bool ends(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}", rest = text_.substr(at_);
    const bool signed_end = (rest[0] == '-' || (rest[0] == '+' && is_block)) && rest.substr(1).starts_with(close);
    if (!signed_end && !rest.starts_with(close)) return false;
    at_ += close.size() + signed_end;
    after_ = !signed_end      ? (is_block ? After::block : After::nothing)
             : rest[0] == '-' ? After::stripping
                              : After::nothing;
    return true;
  }

  void read_tag(bool is_block) {
    TemplateTag tag{is_block, {}};
    std::string open;  // brackets
    while (at_ < text_.size()) {
      if (open.empty() && ends(is_block)) {
        if (is_block && !tag.tokens.empty() && tag.tokens[0].text == "raw") fail("it uses {%raw%}");
        tags_.push_back(std::move(tag));
        return;
      }
      if (is_space(text_[at_])) {
        ++at_;
        continue;
      }
      if (tag.tokens.size() == kMaxTokens) fail("it has a tag of more than 400 words and signs");
      tag.tokens.push_back(read_token());
      const Token& token = tag.tokens.back();
      if (token.kind != Kind::sign) continue;
      if (is_one_of(token.text[0], "([{")) open += token.text[0] == '(' ? ')' : token.text[0] == '[' ? ']' : '}';
      if (!is_one_of(token.text[0], ")]}")) continue;
      if (open.empty() || open.back() != token.text[0]) fail("it cannot be read: a bracket in " + spell(tag));
      open.pop_back();
    }
    fail("it cannot be read: a tag is not closed");
  }

  Token read_token() {
    const char c = text_[at_];
    if (c == '\'' || c == '"') return {Kind::text, read_string()};
    const std::size_t begin = at_;
    if (is_word(c)) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      const std::string word(text_.substr(begin, at_ - begin));
      if (!is_digit(c)) return {Kind::name, word};
      const bool whole = word.size() < 7 && std::all_of(word.begin(), word.end(), is_digit) &&
                         (c != '0' || word.size() == 1) && !(at_ < text_.size() && text_[at_] == '.');
      if (!whole) fail("it uses the number " + word);
      return {Kind::number, word};
    }
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (text_.substr(at_).starts_with(two)) return at_ += 2, Token{Kind::sign, std::string(two)};
    }
    if (!is_one_of(c, "+-*/%~[](){}<>=.:|,")) fail("it cannot be read: a character in a tag");
    return ++at_, Token{Kind::sign, std::string(1, c)};
  }

  /// The string that begins at at_, and past it.
  std::string read_string() {
    std::string text;
    const char quote = text_[at_++];
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        c = ++at_ < text_.size() ? text_[at_] : '\0';
        if (!is_one_of(c, "ntr\\'\"")) fail("it cannot be read: an escape in a string");
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      text += c;
    }
    if (at_++ >= text_.size()) fail("it cannot be read: a string is not closed");
    return text;
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
    if (is_word(out.back()) && token.kind != Kind::sign && token.kind != Kind::text) out += ' ';
    out += token.kind == Kind::text ? quoted(token.text) : token.text;
  }
  return out += tag.is_block ? "%}" : "}}";
}

}  // namespace kvscope
