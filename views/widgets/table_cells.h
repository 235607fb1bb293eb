#pragma once
// Tables that have less room than their texts: which column gets how much, and what is done with a text that is longer.

#include <string>
#include <vector>

#include "views/figure/figure.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// Widths of columns that need these: what is over goes to all, and where there is less the narrow ones, which have
/// numbers, still have what they need while the wide ones divide the rest.
std::vector<float> share_room(const std::vector<float>& needs, float room);

/// As much of its beginning as fits together with an ellipsis; all of it where there is room.
std::string cut_to(const std::string& text, float room);
/// The same with its end: "kvpop ... window 32" and "kvpop ... window 64" differ there.
std::string cut_middle_to(const std::string& text, float room);
/// In one line; where the room (of the column, or so many pixels) ends before it with an ellipsis, and the whole text as its hint.
void cut_text_in(const ViewServices& services, Colour colour, const std::string& text);
void cut_text_in(const ViewServices& services, Colour colour, const std::string& text, float room);
/// In `n` lines at most, broken at spaces alone: a number stays whole. A word that is wider than the room is broken where it
/// is full; the last line ends in "…" where it is cut.
std::string in_lines(const std::string& text, float room, int n);
/// Its first sentences in the room of `n` lines, as many as fit whole; where something is left out a hint has all.
void lines_of_text(const ViewServices& services, Colour colour, const std::string& text, int n);

}  // namespace kvscope::views
