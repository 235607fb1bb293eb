#include "app/workspace/arrangement.h"

#include <algorithm>
#include <functional>

namespace kvscope::app {
namespace {

using Split = DockPart::Split;

DockPart group(std::vector<std::string> tabs) { return {.parts = {}, .tabs = std::move(tabs), .front = ""}; }

DockPart two(Split split, DockPart first, DockPart second) {
  DockPart part{.split = split, .parts = {}, .tabs = {}, .front = ""};
  part.parts.push_back(std::move(first));
  part.parts.push_back(std::move(second));
  return part;
}

DockPart* group_in(DockPart& part, std::string_view id) {
  if (std::ranges::find(part.tabs, id) != part.tabs.end()) return &part;
  for (DockPart& child : part.parts) {
    if (DockPart* found = group_in(child, id)) return found;
  }
  return nullptr;
}

bool is_empty(const DockPart& part) { return part.tabs.empty() && part.parts.empty(); }

/// A part without windows is none: its neighbour takes the place of both.
void drop_empty(DockPart& part) {
  if (part.parts.empty()) return;
  for (DockPart& child : part.parts) drop_empty(child);
  for (const std::size_t empty : {0, 1}) {
    if (!is_empty(part.parts[empty])) continue;
    DockPart other = std::move(part.parts[1 - empty]);
    part = std::move(other);
    return;
  }
}

void add_windows(const DockPart& part, std::vector<std::string>& windows) {
  windows.insert(windows.end(), part.tabs.begin(), part.tabs.end());
  for (const DockPart& child : part.parts) add_windows(child, windows);
}

void open_next_to(Arrangement& all, const std::string& id, std::string_view neighbour, Split split, bool first) {
  close_window(all, id);
  DockPart* part = group_of(all, neighbour);
  if (part == nullptr) part = &all.docked;
  DockPart before = std::move(*part), opened = group({id});
  if (is_empty(before)) {
    *part = std::move(opened);
  } else {
    *part = first ? two(split, std::move(opened), std::move(before)) : two(split, std::move(before), std::move(opened));
  }
}

}  // namespace

Arrangement arrangement_of(const std::vector<std::string>& row) {
  DockPart views = group({std::string(kStrip)});
  if (!row.empty()) {
    DockPart beside = group({row.back()});
    for (std::size_t i = row.size() - 1; i-- > 0;) beside = two(Split::across, group({row[i]}), std::move(beside));
    views = two(Split::down, std::move(views), std::move(beside));
  }
  DockPart middle = two(Split::down, std::move(views), group({std::string(kDeckPanel)}));
  middle = two(Split::across, std::move(middle), group({std::string(kInspector)}));
  middle = two(Split::down, std::move(middle), group({std::string(kLogPanel)}));
  return {.docked = two(Split::across, group({std::string(kLeftPanel)}), std::move(middle)), .floating = {}};
}

std::vector<std::string> windows_of(const DockPart& part) {
  std::vector<std::string> windows;
  add_windows(part, windows);
  return windows;
}

std::vector<std::string> windows_of(const Arrangement& all) {
  std::vector<std::string> windows = windows_of(all.docked);
  for (const FloatingPart& floating : all.floating) add_windows(floating.part, windows);
  return windows;
}

bool has_window(const Arrangement& all, std::string_view id) {
  const std::vector<std::string> windows = windows_of(all);
  return std::ranges::find(windows, id) != windows.end();
}

DockPart* group_of(Arrangement& all, std::string_view id) {
  if (DockPart* found = group_in(all.docked, id)) return found;
  for (FloatingPart& floating : all.floating) {
    if (DockPart* found = group_in(floating.part, id)) return found;
  }
  return nullptr;
}

void close_window(Arrangement& all, std::string_view id) {
  DockPart* part = group_of(all, id);
  if (part == nullptr) return;
  std::erase(part->tabs, id);
  if (part->front == id) part->front.clear();
  drop_empty(all.docked);
  for (FloatingPart& floating : all.floating) drop_empty(floating.part);
  std::erase_if(all.floating, [](const FloatingPart& floating) { return is_empty(floating.part); });
}

void open_beside(Arrangement& all, const std::string& id, std::string_view neighbour) {
  open_next_to(all, id, neighbour, Split::across, false);
}
void open_above(Arrangement& all, const std::string& id, std::string_view neighbour) {
  open_next_to(all, id, neighbour, Split::down, true);
}
void open_below(Arrangement& all, const std::string& id, std::string_view neighbour) {
  open_next_to(all, id, neighbour, Split::down, false);
}

void open_instead(Arrangement& all, const std::string& id, std::string_view other) {
  close_window(all, id);
  DockPart* part = group_of(all, other);
  if (part == nullptr) return open_beside(all, id, other);
  *std::ranges::find(part->tabs, other) = id;
  if (part->front == other) part->front = id;
}

void open_as_tab(Arrangement& all, const std::string& id, std::string_view other) {
  close_window(all, id);
  DockPart* part = group_of(all, other);
  if (part == nullptr) return open_beside(all, id, other);
  part->tabs.push_back(id);
  part->front = id;
}

void open_floating(Arrangement& all, const std::string& id, float x, float y, float w, float h) {
  close_window(all, id);
  all.floating.push_back({.part = group({id}), .x = x, .y = y, .w = w, .h = h});
}

}  // namespace kvscope::app
