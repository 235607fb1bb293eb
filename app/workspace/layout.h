#pragma once
// How the window is arranged and how it looks: plain data, changed by commands and by hand, kept from one start to the
// next. A member that is added here is saved, restored and undone once it is in state_fields.h.

#include <map>
#include <string>
#include <vector>

#include "app/workspace/arrangement.h"
#include "views/figure/colormap.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

/// Of a view that is open beside another of its kind: how it looks, and whose head it shows.
struct InstanceLook {
  views::ViewLook look;
  bool own_head = false;  // it shows the head below, wherever the selection goes
  int layer = 0, kv_head = 0;
  bool operator==(const InstanceLook&) const = default;
};
using InstanceLooks = std::map<std::string, InstanceLook>;  // by the view's id

/// Which panels and views the window shows, and where. What a person can save by name.
struct Layout {
  bool left = true, right = true, bottom = true, log = false;
  Arrangement arrangement = arrangement_of({"layer_head_map", "cache_timeline"});
  InstanceLooks looks;
  bool all_parameters = false;  // those of a policy that few change are not folded away
  std::string maximised;        // view id; empty: none
  std::string look_of;          // the view whose look the selection has for the moment (app/workspace/look_scope.h)
  bool operator==(const Layout&) const = default;
};

struct OwnLayout {
  std::string name;
  bool left = true, right = true, bottom = true, log = false;
  Arrangement arrangement;
  InstanceLooks looks;
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
