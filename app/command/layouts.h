#pragma once
// Which views stand in the main row, and what of the window is there: named choices for what a person is about to do.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/command/ui_state.h"
#include "views/frame/view.h"

namespace kvscope::app {

struct LayoutPreset {
  std::string_view name, title, shortcut;
  bool left, right, bottom;
  std::vector<std::string_view> main;  // views by id, from left to right
};
std::span<const LayoutPreset> layout_presets();
/// has_study: one is open; else a layout that is not about studies comes without their view.
void apply(const LayoutPreset& layout, UiState& ui, bool has_study);

void apply(const OwnLayout& layout, UiState& ui);
/// Names what the window shows now, in the place of a layout of that name. Throws Error (usage) for no name, one that is too
/// long, and more than kMaxOwnLayouts.
void save_layout(UiState& ui, const views::ViewList& views, const std::string& name);

/// The main row as it stands, left to right: what `ui` names and is there, else the first two. Never empty where a view of
/// that place is there.
std::vector<views::View*> main_row(const UiState& ui, const views::ViewList& views);
/// The views that are on the screen, in the order in which a command without a view's name means them: the maximised one, the
/// one that keyboard or mouse is in, then the main row. Not those beside the canvas, of which nothing can be asked.
std::vector<views::View*> meant_views(const UiState& ui, const views::ViewList& views);
/// Where view i of a row of so many ends while no splitter was moved, as a share of the row. The last has more than the
/// others, as time runs along it, and among three at most gives some of that to a layer x head map, which may be two.
float end_at_first(const std::vector<views::View*>& row, std::size_t i);
bool is_in_row(const UiState& ui, const views::ViewList& views, std::string_view view);
/// Puts a view into the row: in the place of another, or at its end. Nothing for one that is in it.
void show_in_row(UiState& ui, const views::ViewList& views, std::string_view view, std::string_view instead_of = {});
/// Takes it out, unless it is the last.
void hide_from_row(UiState& ui, const views::ViewList& views, std::string_view view);

}  // namespace kvscope::app
