#include "views/widgets/known_glyphs.h"

#include <cstdio>

#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

std::string with_known_glyphs(ImFont* font, const std::string& text) {
  std::string known;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c < 0x80 || (c <= IM_UNICODE_CODEPOINT_MAX && has_glyph(font, static_cast<ImWchar>(c)))) {
      known.append(text, start, at - start);
      continue;
    }
    char name[16];
    std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(c));
    known += name;
  }
  return known;
}

}  // namespace kvscope::views
