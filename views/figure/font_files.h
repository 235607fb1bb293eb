#pragma once
// Where the fonts are: found by file name at run time, one place for the window and for paper.

#include <filesystem>
#include <string>

namespace kvscope::views {

enum class FontFile { inter, inter_bold, jetbrains_mono, dejavu, dejavu_bold, dejavu_mono, noto_cjk };

/// Path of the font, or empty if it is not installed. Looked for in $KVSCOPE_FONTS, then below /usr/share/fonts,
/// /usr/local/share/fonts and the user's font folders; found once per process.
const std::filesystem::path& font_file(FontFile font);

}  // namespace kvscope::views
