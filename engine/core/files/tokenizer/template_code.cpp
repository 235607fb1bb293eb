#include "engine/core/files/tokenizer/template_code.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace kvscope {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool is_space(char c) { return std::strchr(" \t\r\n\v\f", c) != nullptr && c != '\0'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word) && !(text[0] >= '0' && text[0] <= '9');
}
/// Words after which [ begins a list, not a subscript.
bool is_operator(std::string_view word) {
  constexpr std::string_view kOperators[] = {"in", "not", "and", "or", "is", "if", "elif", "else"};
  return std::find(std::begin(kOperators), std::end(kOperators), word) != std::end(kOperators);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<TemplateCode> read() {
    if (text_.ends_with('\n')) text_.remove_suffix(1);  // as Jinja does, once
    while (at_ < text_.size()) {
      const std::size_t open = next_tag();
      add_data(text_.substr(at_, open - at_), open);
      if (open == text_.size()) break;
      const char kind = text_[open + 1];
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (!(kind == '#' ? skip_comment() : read_tag(kind))) return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  enum class After { nothing, block, stripping };  // what the tag before does to the text that follows

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < text_.size(); ++i) {
      if (text_[i] == '{' && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#')) return i;
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
    if (data.empty()) return;
    out_.code += "{{" + template_literal(data) + "}}";
    out_.literals.emplace_back(data);
    out_.prints_between = true;
  }

  /// lstrip_blocks: blanks between the line's start and a block tag. Looked for behind the tag before only: that one's
  /// brace is no blank, and a line of a million tags would be gone through a million times.
  void strip_indent(std::string_view& data, std::size_t open) const {
    const std::string_view behind = text_.substr(at_, open - at_);
    const std::size_t line_end = behind.rfind('\n');
    if (line_end == kNone && at_ > 0) return;
    const std::string_view before = line_end == kNone ? behind : behind.substr(line_end + 1);
    if (!std::all_of(before.begin(), before.end(), is_space)) return;
    data.remove_suffix(std::min(before.size(), data.size()));
  }

  bool skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == kNone) return false;
    after_ = end > at_ && text_[end - 1] == '-' ? After::stripping : After::block;
    at_ = end + 2;
    return true;
  }

  bool read_tag(char kind) {
    const std::string_view close = kind == '{' ? "}}" : "%}";
    out_.code += kind == '{' ? "{{" : "{%";
    last_word_.clear();
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      const bool strips = rest.starts_with('-') && rest.substr(1).starts_with(close);
      if (strips || rest.starts_with(close)) {
        out_.code += close;
        at_ += close.size() + strips;
        after_ = strips ? After::stripping : kind == '{' ? After::nothing : After::block;
        return true;
      }
      if (!read_token()) return false;
    }
    return false;
  }

  bool read_token() {
    const char c = text_[at_];
    if (is_space(c)) return ++at_, true;
    if (c == '\'' || c == '"') return read_string();
    if (is_word(c)) return read_word(), true;
    if (c == '[' && read_subscript()) return true;
    out_.code += c;
    last_word_ = c == ')' || c == ']' ? std::string(1, c) : "";
    return ++at_, true;
  }

  void read_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    last_word_ = text_.substr(begin, at_ - begin);
    if (out_.code.ends_with("{%")) out_.blocks.push_back(last_word_);
    if (is_word(out_.code.back())) out_.code += ' ';
    out_.code += last_word_;
    if (seen_.insert(last_word_).second) out_.words.push_back(last_word_);
  }

  bool read_string() {
    std::string text;
    if (!decode_string(text)) return false;
    out_.code += template_literal(text);
    out_.literals.push_back(std::move(text));
    last_word_.clear();
    return true;
  }

  /// The string that begins at at_, and past it.
  bool decode_string(std::string& text) {
    const char quote = text_[at_++];
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        if (++at_ == text_.size()) return false;
        c = text_[at_] == 'n' ? '\n' : text_[at_] == 't' ? '\t' : text_[at_] == 'r' ? '\r' : text_[at_];
        if (c == text_[at_] && c != '\\' && c != '\'' && c != '"') return false;
      }
      text += c;
    }
    return at_++ < text_.size();
  }

  /// ['role'] after a value as .role.
  bool read_subscript() {
    if (last_word_.empty() || is_operator(last_word_)) return false;
    const std::size_t begin = at_;
    std::string name;
    const auto skip = [&] {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      return at_ < text_.size();
    };
    ++at_;
    const bool quoted = skip() && (text_[at_] == '\'' || text_[at_] == '"') && decode_string(name);
    if (!quoted || !skip() || text_[at_] != ']' || !is_name(name)) {
      at_ = begin;
      return false;
    }
    ++at_;
    out_.code += "." + name;
    last_word_ = name;
    if (seen_.insert(name).second) out_.words.push_back(name);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  After after_ = After::nothing;
  std::string last_word_;                 // the value that a [ would be a subscript of; empty if there is none
  std::unordered_set<std::string> seen_;  // out_.words
  TemplateCode out_;
};

}  // namespace

std::optional<TemplateCode> TemplateCode::read(std::string_view jinja) { return Reader(jinja).read(); }

std::string template_literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\'' || c == '\\') {
      out += {'\\', c};
    } else {
      out += c;
    }
  }
  return out += "'";
}

}  // namespace kvscope
