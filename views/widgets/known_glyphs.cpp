#include "views/widgets/known_glyphs.h"

#include <cstdio>

#include "views/figure/token_text.h"

namespace kvscope::views {

std::string with_visible_characters(const std::string& text) {
  std::string known;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c < 0x80 || !is_invisible(c)) {
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
