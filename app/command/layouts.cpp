#include "app/command/layouts.h"

#include <algorithm>

#include "app/support/usage.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kAtFirst = 2;   // views beside each other
constexpr std::size_t kWithRoom = 3;  // of more than so many none has room to give
constexpr float kOfLast = 0.16f;      // what the last has more than an equal share of the rest
constexpr float kLeastOfMap = 0.42f;  // of the row: at 1280 x 720 two maps beside each other are no slivers
constexpr float kMapOfPair = 0.48f;   // where there are two views

std::vector<std::string> names_of(const std::vector<views::View*>& row) {
  std::vector<std::string> names;
  for (const views::View* view : row) names.emplace_back(view->id());
  return names;
}

bool has(const std::vector<views::View*>& row, std::string_view view) {
  return std::ranges::any_of(row, [&](const views::View* v) { return v->id() == view; });
}

}  // namespace

std::span<const LayoutPreset> layout_presets() {
  static const LayoutPreset kLayouts[] = {
      {"explore", "Layout: explore a run", "F5", true, true, true, {"layer_head_map", "cache_timeline"}},
      {"compare", "Layout: compare A and B", "F7", true, true, true, {"layer_head_map", "comparison", "run_curves"}},
      {"allocate",
       "Layout: choose the heads of a hybrid",
       "F9",
       true,
       false,
       true,
       {"head_board", "study", "comparison"}},
      {"study", "Layout: explore a study and its runs", "F10", true, false, false, {"study", "layer_head_map"}},
      {"paper", "Layout: figures at full size", "F8", false, false, true, {"layer_head_map", "metric_by_layer"}},
  };
  return kLayouts;
}

void apply(const LayoutPreset& layout, UiState& ui, bool has_study) {
  ui.left = layout.left, ui.right = layout.right, ui.bottom = layout.bottom;
  ui.maximised.clear();
  ui.main_row.assign(layout.main.begin(), layout.main.end());
  if (!has_study && layout.name != "study") std::erase(ui.main_row, "study");  // a third of the row would be empty
}

void apply(const OwnLayout& layout, UiState& ui) {
  ui.left = layout.left, ui.right = layout.right, ui.bottom = layout.bottom;
  ui.maximised.clear();
  ui.main_row = layout.main_row;
}

void save_layout(UiState& ui, const views::ViewList& views, const std::string& name) {
  if (name.empty()) usage_error("name", "nothing", "a name for the layout");
  if (name.size() > kMaxLayoutName)
    usage_error("name", std::to_string(name.size()) + " bytes", "at most " + std::to_string(kMaxLayoutName));
  auto place = std::ranges::find(ui.own_layouts, name, &OwnLayout::name);
  if (place == ui.own_layouts.end()) {
    if (ui.own_layouts.size() == kMaxOwnLayouts)
      usage_error("custom layouts", "there are already " + std::to_string(kMaxOwnLayouts), "", "remove one first");
    place = ui.own_layouts.insert(place, OwnLayout{});
  }
  *place = {name, ui.left, ui.right, ui.bottom, names_of(main_row(ui, views))};
}

std::vector<views::View*> main_row(const UiState& ui, const views::ViewList& views) {
  std::vector<views::View*> all, row;
  for (const auto& view : views) {
    if (view->place() == views::Place::main) all.push_back(view.get());
  }
  for (const std::string& name : ui.main_row) {
    const auto view = std::ranges::find(all, name, [](const views::View* v) { return std::string_view(v->id()); });
    if (view != all.end() && !has(row, name)) row.push_back(*view);
  }
  if (row.empty()) row.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kAtFirst)));
  return row;
}

std::vector<views::View*> meant_views(const UiState& ui, const views::ViewList& views) {
  std::vector<views::View*> meant;
  for (const std::string& first : {ui.maximised, ui.pointed_view}) {
    for (const auto& view : views) {
      if (view->id() == first && view->place() != views::Place::side) meant.push_back(view.get());
    }
  }
  for (views::View* view : main_row(ui, views)) meant.push_back(view);
  return meant;
}

float end_at_first(const std::vector<views::View*>& row, std::size_t i) {
  if (i + 1 >= row.size()) return 1;
  const auto n = static_cast<float>(row.size());
  const float each = (1 - kOfLast) / n, wanted = row.size() == 2 ? kMapOfPair : kLeastOfMap;
  const auto map = std::ranges::find(row, std::string_view("layer_head_map"), &views::View::id) - row.begin();
  const float more = row.size() > kWithRoom ? 0 : std::clamp(wanted - each, 0.f, kOfLast);
  return each * static_cast<float>(i + 1) + (static_cast<std::size_t>(map) <= i ? more : 0);
}

bool is_in_row(const UiState& ui, const views::ViewList& views, std::string_view view) {
  return has(main_row(ui, views), view);
}

void show_in_row(UiState& ui, const views::ViewList& views, std::string_view view, std::string_view instead_of) {
  const auto row = main_row(ui, views);
  if (has(row, view)) return;
  ui.main_row = names_of(row);
  const auto place = std::ranges::find(ui.main_row, instead_of);
  if (place != ui.main_row.end()) {
    *place = view;
  } else {
    ui.main_row.emplace_back(view);
  }
}

void hide_from_row(UiState& ui, const views::ViewList& views, std::string_view view) {
  const auto row = main_row(ui, views);
  if (row.size() < 2) return;
  ui.main_row = names_of(row);
  std::erase(ui.main_row, view);
}

}  // namespace kvscope::app
