#pragma once
// Where the windows of the program are: tabs, splits and floating groups, as plain data that is saved, undone and named.
// app/window/dock.h builds Dear ImGui's docking from it and reads changes by hand back.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::app {

/// A group of tabs, or two parts beside or above each other.
struct DockPart {
  enum class Split : std::uint8_t { none, across, down };
  Split split = Split::none;
  float share = 0;                // of the first part, below 1; 0: as much as it needs (app/window/dock.h)
  std::vector<DockPart> parts;    // two, or none of tabs
  std::vector<std::string> tabs;  // windows by id, left to right
  std::string front;              // the tab on show; empty: the first
  bool operator==(const DockPart&) const = default;
};

/// A group outside of the others. Its place is in shares of the program's window.
struct FloatingPart {
  DockPart part;
  float x = 0, y = 0, w = 0, h = 0;
  bool operator==(const FloatingPart&) const = default;
};

/// Views that are closed are not in it. Panels (the left one, log, deck) always are, and Layout says which are on show.
struct Arrangement {
  DockPart docked;
  std::vector<FloatingPart> floating;
  bool operator==(const Arrangement&) const = default;
};

inline constexpr std::string_view kLeftPanel = "left", kLogPanel = "log", kDeckPanel = "deck", kInspector = "inspector",
                                  kStrip = "token_strip";

/// The panels at their places, the token strip over a row of these views.
Arrangement arrangement_of(const std::vector<std::string>& row);

/// From left to right, or top to bottom, those that float last.
std::vector<std::string> windows_of(const Arrangement& all);
std::vector<std::string> windows_of(const DockPart& part);
bool has_window(const Arrangement& all, std::string_view id);
/// The group of tabs that has it; null: none.
DockPart* group_of(Arrangement& all, std::string_view id);

/// Takes a window out; what was beside its group gets the room.
void close_window(Arrangement& all, std::string_view id);
/// Puts a window into a part of its own at the right of a neighbour, or of everything where there is no such neighbour.
void open_beside(Arrangement& all, const std::string& id, std::string_view neighbour);
/// The same above or below a neighbour.
void open_above(Arrangement& all, const std::string& id, std::string_view neighbour);
void open_below(Arrangement& all, const std::string& id, std::string_view neighbour);
/// In the place of another window.
void open_instead(Arrangement& all, const std::string& id, std::string_view other);
/// As a tab in front of another window.
void open_as_tab(Arrangement& all, const std::string& id, std::string_view other);
/// Only in a group that floats, at that place.
void open_floating(Arrangement& all, const std::string& id, float x, float y, float w, float h);

nlohmann::json arrangement_json(const Arrangement& all);
/// Throws Error for what no arrangement is: over 32 deep, over 100 windows, one twice, a share outside of 0 to 1.
Arrangement arrangement_from(const nlohmann::json& json, const std::string& file);

}  // namespace kvscope::app
