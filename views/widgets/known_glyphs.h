#pragma once
// Text with characters that one does not see.

#include <string>

namespace kvscope::views {

/// Characters that one does not see, or that move their neighbours, as U+XXXX.
std::string with_visible_characters(const std::string& text);

}  // namespace kvscope::views
