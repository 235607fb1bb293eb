#pragma once
// Text that remembers where it comes from, and what templates do with it.

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// One origin a byte: markup that was typed must stay text, and the template's own must become tokens.
struct TemplateText {
  enum Origin : char { said = 's', written = 'w', bos_begin = 'b', bos = 'c' };
  std::string text, origins;

  TemplateText() = default;
  TemplateText(std::string_view t, Origin origin) : text(t), origins(t.size(), origin) {}
  void operator+=(const TemplateText& more) {
    text += more.text;
    origins += more.origins;
  }
  TemplateText part(std::size_t begin, std::size_t size) const;

  /// As Python's str has them. `characters` (ASCII) of strip() are a set; empty means white space.
  TemplateText strip(bool left, bool right, std::string_view characters) const;
  std::vector<TemplateText> split(std::string_view separator) const;
};

}  // namespace kvscope
