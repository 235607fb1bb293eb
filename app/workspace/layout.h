#pragma once
// How the window is arranged and how it looks: plain data, changed by commands and splitters, kept from one start to the
// next. A member that is added here is saved, restored and undone once it stands in state_fields.h.

#include <string>
#include <vector>

#include "views/figure/colormap.h"

namespace kvscope::app {

/// Sizes that splitters change, in design pixels and shares; a double click on a splitter restores its default.
struct CockpitSizes {
  float left = 372, right = 330, bottom = 132, log = 150;
  float strip = 0.46f;  // height of the strips' part of the canvas
  /// Of each place: where one view ends and the next begins, as shares. Empty until a splitter was moved.
  std::vector<float> cuts_strip, cuts_main, cuts_side;
  bool operator==(const CockpitSizes&) const = default;
};

struct Layout {
  bool left = true, right = true, bottom = true, log = false;
  bool all_parameters = false;        // those of a policy that few change are not folded away
  std::string maximised;              // view id, empty for the cockpit
  std::vector<std::string> main_row;  // views beside each other, by id; empty: the first two (app/command/layouts.h)
  CockpitSizes sizes;
  bool operator==(const Layout&) const = default;
};

/// What of the window a person has put together and named: which panels are there, which views stand in the main row.
struct OwnLayout {
  std::string name;
  bool left = true, right = true, bottom = true;
  std::vector<std::string> main_row;
  bool operator==(const OwnLayout&) const = default;
};
inline constexpr std::size_t kMaxOwnLayouts = 20;
inline constexpr std::size_t kMaxLayoutName = 60;  // bytes

/// The person's taste: it holds for every workspace and is kept with the settings.
struct Appearance {
  bool dark = true;
  views::Colormap colours = views::Colormap::viridis;  // of the maps, on screen and in figures of it; or cividis
  float zoom = 1;                                      // on top of the display's scale
  std::vector<OwnLayout> own_layouts;                  // in the order in which they were saved
  bool operator==(const Appearance&) const = default;
};

}  // namespace kvscope::app
