// Upper and lower case of the common alphabets.

#include <algorithm>

#include "engine/core/files/tokenizer/template_filters.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

/// Of characters that have no case, and of the others that are known: what to add for upper and for lower case.
struct Case {
  int to_upper = 0, to_lower = 0;
  bool known = true;
};

Case case_of(char32_t c) {
  if (is_between(c, 'a', 'z') || is_between(c, 0x3B1, 0x3C1) || is_between(c, 0x3C3, 0x3C9) ||
      is_between(c, 0x430, 0x44F))
    return {-32, 0};
  if (is_between(c, 'A', 'Z') || is_between(c, 0x391, 0x3A1) || is_between(c, 0x3A4, 0x3A9) ||
      is_between(c, 0x410, 0x42F))
    return {0, 32};
  if (c < 0xAA) return {};
  if (is_between(c, 0xE0, 0xFE) && c != 0xF7) return {-32, 0};
  if (is_between(c, 0xC0, 0xDE) && c != 0xD7) return {0, 32};
  if (is_between(c, 0xAB, 0xD7) && c != 0xB5 && c != 0xBA) return {};
  if (c == 0xF7) return {};
  if (is_between(c, 0x400, 0x40F)) return {0, 80};
  if (is_between(c, 0x450, 0x45F)) return {-80, 0};
  const bool even_is_upper = is_between(c, 0x100, 0x12F) || is_between(c, 0x132, 0x137) || is_between(c, 0x14A, 0x177);
  const bool odd_is_upper = is_between(c, 0x139, 0x148) || is_between(c, 0x179, 0x17E);
  if (even_is_upper || odd_is_upper) return (c % 2 == 0) == even_is_upper ? Case{0, 1} : Case{-1, 0};
  const bool has_none =
      is_between(c, 0x300, 0x344) || is_between(c, 0x591, 0x10C5 - 1) || is_between(c, 0x1100, 0x139F) ||
      is_between(c, 0x2000, 0x2060) || is_between(c, 0x20A0, 0x20F0) || is_between(c, 0x2190, 0x24B5) ||
      is_between(c, 0x2500, 0x2BFF) || is_between(c, 0x2E80, 0xA63F) || is_between(c, 0xAC00, 0xD7A3) ||
      is_between(c, 0xF900, 0xFAFF) || is_between(c, 0xFE00, 0xFE6F) || is_between(c, 0xFF01, 0xFF20) ||
      is_between(c, 0x1F000, 0x1FAFF) || is_between(c, 0x20000, 0x3FFFF);
  return {0, 0, has_none};
}

bool ends_word(char32_t c, bool is_filter) {
  if (!is_filter && c == 0xDF) return false;
  if (!is_filter) return case_of(c).to_upper == 0 && case_of(c).to_lower == 0;
  const std::string_view ends = "-({[< \t\n\r\v\f\x1C\x1D\x1E\x1F";
  return c < 0x80
             ? ends.find(static_cast<char>(c)) != ends.npos
             : c == 0x85 || c == 0xA0 || c == 0x3000 || is_between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029;
}

}  // namespace

TemplateText template_cased(const TemplateText& text, std::string_view how, bool is_filter) {
  TemplateText out;
  bool begins = true;
  for (std::size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const bool is_sharp_s = c.code_point == 0xDF;  // two letters in upper case
    const Case is = c.valid && !is_sharp_s ? case_of(c.code_point) : Case{};
    if (!is.known) throw TemplateProblem{std::string(how) + " of a character whose case KVScope does not have"};
    const bool upper = how == "upper" || (how != "lower" && begins);
    const int add = upper ? is.to_upper : is.to_lower;
    std::string one = text.text.substr(at, c.length);
    if (is_sharp_s && upper) one = how == "upper" ? "SS" : "Ss";
    if (add != 0) {
      one.clear();
      append_utf8(one, c.code_point + static_cast<char32_t>(add));
    }
    out += TemplateText(one, static_cast<TemplateText::Origin>(text.origins[at]));
    begins = how == "title" && ends_word(c.code_point, is_filter);
    at += c.length;
  }
  return out;
}

}  // namespace kvscope
