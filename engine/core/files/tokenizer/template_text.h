#pragma once
// Text that remembers where it comes from, and what templates do with it.

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// One origin a byte: markup that was typed must stay text, and the template's own must become tokens.
struct TemplateText {
  enum Origin : char { said = 's', written = 'w' };
  std::string text, origins;

  TemplateText() = default;
  TemplateText(std::string_view t, Origin origin) : text(t), origins(t.size(), origin) {}
  void operator+=(const TemplateText& more) {
    text += more.text;
    origins += more.origins;
  }
  TemplateText part(std::size_t begin, std::size_t size = std::string::npos) const {
    TemplateText out;
    out.text = text.substr(begin, size);
    out.origins = origins.substr(begin, size);
    return out;
  }
  bool is_said() const { return origins.find(said) != origins.npos; }

  /// As Python's str has it. `characters` are a set; null means white space.
  TemplateText strip(bool left, bool right, const std::string* characters) const;
  /// Where its characters begin, and its end.
  std::vector<std::size_t> characters() const;
};

/// `text` without what Python takes for white space.
std::string_view strip_python(std::string_view text, bool left, bool right);
/// Bytes of the white space at text[at]; 0 if there is none.
std::size_t python_space(std::string_view text, std::size_t at);
/// Bytes of the line end at text[at], as str.splitlines() has them; 0 if there is none.
std::size_t python_line_end(std::string_view text, std::size_t at);
/// upper, lower, capitalize, title; the filter title takes other characters for the ends of words than the method.
TemplateText template_cased(const TemplateText& text, std::string_view how, bool is_filter);

}  // namespace kvscope
