#include "engine/core/files/tokenizer/template_text.h"

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// Python's white space, which is more than the tokenizers': U+001C to U+001F are in it.
bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_stripped(const Utf8Char& c, std::string_view characters) {
  if (!c.valid) return false;
  if (characters.empty()) return is_python_space(c.code_point);
  return c.code_point < 0x80 && characters.find(static_cast<char>(c.code_point)) != characters.npos;
}

}  // namespace

TemplateText TemplateText::part(std::size_t begin, std::size_t size) const {
  TemplateText out;
  out.text = text.substr(begin, size);
  out.origins = origins.substr(begin, size);
  return out;
}

TemplateText TemplateText::strip(bool left, bool right, std::string_view characters) const {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const Utf8Char c = decode_utf8(text, begin);
    if (!is_stripped(c, characters)) break;
    begin += c.length;
  }
  while (right && begin < end) {
    std::size_t at = end - 1;
    while (at > begin && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    const Utf8Char c = decode_utf8(text, at);
    if (!is_stripped(c, characters) || at + c.length != end) break;
    end = at;
  }
  return part(begin, end - begin);
}

std::vector<TemplateText> TemplateText::split(std::string_view separator) const {
  std::vector<TemplateText> parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(separator, begin)) != text.npos; begin = at + separator.size()) {
    parts.push_back(part(begin, at - begin));
  }
  parts.push_back(part(begin, text.size() - begin));
  return parts;
}

}  // namespace kvscope
