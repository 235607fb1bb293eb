#pragma once
// One line that is read and not edited, in any script: names and beginnings of prompts in lists.

#include <cstdint>
#include <string>
#include <string_view>

#include "views/frame/view_services.h"

namespace kvscope::views {

class TextFont;

/// Where a line that is too long goes on after "...".
enum class Cut : std::uint8_t {
  end,    // nowhere: its beginning is there
  middle  // with its end: what differs may stand there
};

/// As much of a line as there is room for.
std::string fitted(const TextFont& font, std::string_view text, float room, Cut cut = Cut::end);
/// The next item, with the font that is current, `room` pixels wide at most. Characters that the fonts lack are asked for
/// when they are in sight, and what has no glyph or no width stands in a frame by its number.
void text_line(const ViewServices& services, Colour ink, std::string_view text, float room, Cut cut = Cut::end);

}  // namespace kvscope::views
