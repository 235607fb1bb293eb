#pragma once
// Which views are open and where: the given layouts, a person's own, and the steps of the commands view.*.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/command/ui_state.h"
#include "views/frame/view.h"

namespace kvscope::app {

struct LayoutPreset {
  std::string_view name, label, title, shortcut;  // label: of its button
  bool left, right, bottom;
  std::vector<std::string_view> main;  // views of the row by id, from left to right
};
std::span<const LayoutPreset> layout_presets();
/// has_study: one is open; else a layout that is not about studies comes without their view.
void apply(const LayoutPreset& layout, UiState& ui, bool has_study);
void apply(const OwnLayout& layout, UiState& ui);
/// Whether the window shows what apply() would.
bool is_shown(const LayoutPreset& layout, const UiState& ui, bool has_study);
/// Names what the window shows now, in the place of a layout of that name. Throws Error (usage) for no name, one that is too
/// long, and more than kMaxOwnLayouts.
void save_layout(UiState& ui, const std::string& name);

/// A view by the argument of that name, of those that may be open or not, and with `side` those of Place::side. Throws Error
/// (usage) that lists them.
std::string view_argument(const views::ViewList& views, const nlohmann::json& arguments, const char* name,
                          bool side = false);
/// The open views of Place::main, from left to right, those that float last.
std::vector<views::View*> main_row(const UiState& ui, const views::ViewList& views);
/// The views on show, in the order in which a command without a view's name means them: the maximised one, the one that
/// keyboard or mouse is in, then the main row. Not those of Place::side, of which nothing can be asked.
std::vector<views::View*> meant_views(const UiState& ui, const views::ViewList& views);
/// Where view i of a row of so many ends in the given layouts, as a share of the row. The last has more than the others, as
/// time runs along it, and among three at most gives some of that to a layer x head map, which may be two.
float end_at_first(const std::vector<std::string>& row, std::size_t i);

/// Opens a view: in the place of another, else at the right end of the row. One that is open comes to the front.
void show_view(UiState& ui, const views::ViewList& views, const std::string& view, std::string_view instead_of = {});
void close_view(UiState& ui, const std::string& view);
/// Another one of a view's kind, beside it, with its look. Returns its id: "layer_head_map.2".
std::string open_another(UiState& ui, const views::Selection& selection, std::string_view view);
/// "layer_head_map" of "layer_head_map.2".
std::string_view kind_of(std::string_view view);

}  // namespace kvscope::app
