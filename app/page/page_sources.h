#pragma once
// The page without a run: what CMake took from page.html, page.css and the scripts.

#include <string_view>

namespace kvscope::app {

extern const std::string_view kPageHtml;    // {{name}} marks what a run fills in
extern const std::string_view kPageCss;     // its colours are variables
extern const std::string_view kPageScript;  // measure.js, draw.js, keys.js, page.js

}  // namespace kvscope::app
