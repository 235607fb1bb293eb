#include "engine/core/files/tokenizer/metaspace.h"

#include <algorithm>
#include <charconv>

namespace kvscope {

std::string mark_blanks(const BlankRule& rule, std::string_view text, bool at_start) {
  using Prefix = BlankRule::Prefix;
  if (text.empty()) return {};
  const bool begins_with_one = text.starts_with(kBlankMark) || (rule.marks && text.starts_with(' '));
  const bool wanted = rule.prefix == Prefix::missing || (rule.prefix == Prefix::missing_at_start && at_start);
  std::string out;
  out.reserve(text.size() + text.size() / 2 + kBlankMark.size());
  if (rule.prefix == Prefix::every || (wanted && !begins_with_one)) out += kBlankMark;
  while (rule.marks && !text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    out += text.substr(0, blank);
    if (blank == text.size()) return out;
    out += kBlankMark;
    text.remove_prefix(blank + 1);
  }
  return out += text;
}

std::size_t length_to_mark(std::string_view text, bool runs) {
  std::size_t at = 0;
  if (runs) {
    while (text.substr(at).starts_with(kBlankMark)) at += kBlankMark.size();
  }
  return std::min(text.find(kBlankMark, at > 0 ? at : 1), text.size());
}

std::string printed_token(std::string_view token) {
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
    unsigned char byte = 0;
    const char* digits = token.data() + 3;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) return std::string(1, static_cast<char>(byte));
  }
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t mark = std::min(token.find(kBlankMark, at), token.size());
    out += token.substr(at, mark - at);
    if (mark < token.size()) out += ' ';
    at = mark + kBlankMark.size();
  }
  return out;
}

std::string byte_token(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

}  // namespace kvscope
