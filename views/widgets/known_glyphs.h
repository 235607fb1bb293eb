#pragma once
// Text whose characters a font may lack.

#include <imgui.h>

#include <string>

namespace kvscope::views {

/// Characters that the font lacks as U+XXXX, so that different ones do not look alike.
std::string with_known_glyphs(ImFont* font, const std::string& text);

}  // namespace kvscope::views
