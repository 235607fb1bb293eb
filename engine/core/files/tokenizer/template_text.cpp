#include "engine/core/files/tokenizer/template_text.h"

#include <wctype.h>

#include <algorithm>

#include "engine/core/files/tokenizer/template_code.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// Python's white space, which is more than the tokenizers': U+001C to U+001F are in it.
bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// Where the last character of text[begin, end) begins.
std::size_t last_char(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t at = end - 1;
  while (at > begin && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at + decode_utf8(text, at).length == end ? at : end - 1;
}

/// What stays of `text`: first byte, and the one past the last.
template <class IsStripped>
std::pair<std::size_t, std::size_t> stripped(std::string_view text, bool left, bool right, IsStripped is_stripped) {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const std::size_t length = decode_utf8(text, begin).length;
    if (!is_stripped(text.substr(begin, length))) break;
    begin += length;
  }
  while (right && begin < end) {
    const std::size_t at = last_char(text, begin, end);
    if (!is_stripped(text.substr(at, end - at))) break;
    end = at;
  }
  return {begin, end};
}

constexpr char32_t kSharpS = 0xDF;  // two letters in upper case

locale_t unicode() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!locale) template_fail("letters whose case this system does not know");
  return locale;
}

/// Characters whose other case is several characters, or depends on those around it.
bool is_special(char32_t c) {
  constexpr char32_t kSpecial[][2] = {{0x130, 0x130},  {0x149, 0x149},   {0x1C4, 0x1CC},   {0x1F0, 0x1F3},
                                      {0x345, 0x345},  {0x390, 0x390},   {0x3A3, 0x3A3},   {0x3B0, 0x3B0},
                                      {0x587, 0x587},  {0x10D0, 0x10FF}, {0x1E96, 0x1E9A}, {0x1F50, 0x1FFF},
                                      {0xFB00, 0xFB17}};
  for (const auto& [first, last] : kSpecial) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

char32_t with_case(char32_t c, bool upper) {
  return static_cast<char32_t>(upper ? towupper_l(c, unicode()) : towlower_l(c, unicode()));
}

bool ends_word(std::string_view character, char32_t c, bool is_filter) {
  if (is_filter) return python_space(character, 0) > 0 || std::string_view("-({[<").find(character) != character.npos;
  return !iswupper_l(c, unicode()) && !iswlower_l(c, unicode());
}

bool is_space(std::string_view character) { return python_space(character, 0) > 0; }

}  // namespace

std::size_t python_space(std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return c.valid && is_python_space(c.code_point) ? c.length : 0;
}

std::size_t python_line_end(std::string_view text, std::size_t at) {
  if (text.substr(at).starts_with("\r\n")) return 2;
  const Utf8Char c = decode_utf8(text, at);
  const char32_t p = c.code_point;
  const bool ends = (p >= 0x0A && p <= 0x0D) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 || p == 0x2029;
  return c.valid && ends ? c.length : 0;
}

std::string_view strip_python(std::string_view text, bool left, bool right) {
  const auto [begin, end] = stripped(text, left, right, is_space);
  return text.substr(begin, end - begin);
}

TemplateText TemplateText::strip(bool left, bool right, const std::string* characters) const {
  std::vector<std::string_view> set;
  for (std::size_t at = 0; characters && at < characters->size(); at += set.back().size()) {
    set.push_back(std::string_view(*characters).substr(at, decode_utf8(*characters, at).length));
  }
  const auto is_in_set = [&](std::string_view c) { return std::find(set.begin(), set.end(), c) != set.end(); };
  const auto [begin, end] = characters ? stripped(text, left, right, is_in_set) : stripped(text, left, right, is_space);
  return part(begin, end - begin);
}

std::vector<std::size_t> TemplateText::characters() const {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

TemplateText template_cased(const TemplateText& text, std::string_view how, bool is_filter) {
  TemplateText out;
  bool begins = true;
  for (std::size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    std::string one = text.text.substr(at, c.length);
    if (c.valid && is_special(c.code_point)) template_fail(std::string(how) + " of the letter " + one);
    const bool upper = how == "upper" || (how != "lower" && begins);
    begins = how == "title" && ends_word(one, c.code_point, is_filter);
    if (c.valid && c.code_point == kSharpS && upper) {
      one = how == "upper" || (how == "title" && is_filter) ? "SS" : "Ss";
    } else if (c.valid) {
      one.clear();
      append_utf8(one, with_case(c.code_point, upper));
    }
    out += TemplateText(one, static_cast<TemplateText::Origin>(text.origins[at]));
    at += c.length;
  }
  return out;
}

}  // namespace kvscope
