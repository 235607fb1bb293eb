#include "app/command/layouts.h"

#include <algorithm>

#include "app/command/command_arguments.h"
#include "app/support/usage.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kWithRoom = 3;  // of more than so many none has room to give
constexpr float kOfLast = 0.16f;      // what the last has more than an equal share of the rest
constexpr float kLeastOfMap = 0.42f;  // of the row: at 1280 x 720 two maps beside each other are no slivers
constexpr float kMapOfPair = 0.48f;   // where there are two views

views::View* find_view(const views::ViewList& views, std::string_view id) {
  const auto found = std::ranges::find_if(views, [&](const auto& view) { return view->id() == id; });
  return found == views.end() ? nullptr : found->get();
}

std::vector<std::string> row_of(const LayoutPreset& layout, bool has_study) {
  std::vector<std::string> row(layout.main.begin(), layout.main.end());
  if (!has_study && layout.name != "study") std::erase(row, "study");  // a third of the row would be empty
  return row;
}

}  // namespace

std::span<const LayoutPreset> layout_presets() {
  static const LayoutPreset kLayouts[] = {
      {"explore", "Explore", "Layout: explore a run", "F5", true, true, true, {"layer_head_map", "cache_timeline"}},
      {"compare",
       "Compare",
       "Layout: compare A and B",
       "F7",
       true,
       true,
       true,
       {"layer_head_map", "comparison", "run_curves"}},
      {"allocate",
       "Heads",
       "Layout: choose the heads of a hybrid",
       "F9",
       true,
       false,
       true,
       {"head_board", "study", "comparison"}},
      {"study",
       "Study",
       "Layout: explore a study and its runs",
       "F10",
       true,
       false,
       false,
       {"study", "layer_head_map"}},
      {"paper",
       "Figures",
       "Layout: figures at full size",
       "F8",
       false,
       false,
       true,
       {"layer_head_map", "metric_by_layer"}},
  };
  return kLayouts;
}

void apply(const LayoutPreset& layout, UiState& ui, bool has_study) {
  ui.left = layout.left, ui.right = layout.right, ui.bottom = layout.bottom;
  ui.maximised.clear();
  ui.arrangement = arrangement_of(row_of(layout, has_study));
}

bool is_shown(const LayoutPreset& layout, const UiState& ui, bool has_study) {
  return ui.left == layout.left && ui.right == layout.right && ui.bottom == layout.bottom && ui.maximised.empty() &&
         ui.arrangement == arrangement_of(row_of(layout, has_study));
}

void apply(const OwnLayout& layout, UiState& ui) {
  ui.left = layout.left, ui.right = layout.right, ui.bottom = layout.bottom, ui.log = layout.log;
  ui.maximised.clear();
  ui.arrangement = layout.arrangement;
  ui.looks = layout.looks;
}

void save_layout(UiState& ui, const std::string& name) {
  if (name.empty()) usage_error("name", "nothing", "a name for the layout");
  if (name.size() > kMaxLayoutName)
    usage_error("name", std::to_string(name.size()) + " bytes", "at most " + std::to_string(kMaxLayoutName));
  auto place = std::ranges::find(ui.own_layouts, name, &OwnLayout::name);
  if (place == ui.own_layouts.end()) {
    if (ui.own_layouts.size() == kMaxOwnLayouts)
      usage_error("custom layouts", "there are already " + std::to_string(kMaxOwnLayouts), "", "remove one first");
    place = ui.own_layouts.insert(place, OwnLayout{});
  }
  *place = {name, ui.left, ui.right, ui.bottom, ui.log, ui.arrangement, ui.looks};
}

std::string view_argument(const views::ViewList& views, const nlohmann::json& arguments, const char* name, bool side) {
  const std::string wanted = text_argument(arguments, name);
  std::string all;
  for (const auto& view : views) {
    if (!side && view->place() == views::Place::side) continue;
    if (wanted == view->id()) return wanted;
    all += (all.empty() ? "" : ", ") + view->id();
  }
  bad_argument(name, "one of " + all);
}

std::vector<views::View*> main_row(const UiState& ui, const views::ViewList& views) {
  std::vector<views::View*> row;
  for (const std::string& id : windows_of(ui.arrangement)) {
    views::View* view = find_view(views, id);
    if (view != nullptr && view->place() == views::Place::main) row.push_back(view);
  }
  return row;
}

std::vector<views::View*> meant_views(const UiState& ui, const views::ViewList& views) {
  std::vector<views::View*> meant;
  for (const std::string& first : {ui.maximised, ui.pointed_view}) {
    views::View* view = find_view(views, first);
    if (view != nullptr && view->place() != views::Place::side) meant.push_back(view);
  }
  for (views::View* view : main_row(ui, views)) meant.push_back(view);
  return meant;
}

float end_at_first(const std::vector<std::string>& row, std::size_t i) {
  if (i + 1 >= row.size()) return 1;
  const auto n = static_cast<float>(row.size());
  const float each = (1 - kOfLast) / n, wanted = row.size() == 2 ? kMapOfPair : kLeastOfMap;
  const auto map = std::ranges::find(row, "layer_head_map") - row.begin();
  const float more = row.size() > kWithRoom ? 0 : std::clamp(wanted - each, 0.f, kOfLast);
  return each * static_cast<float>(i + 1) + (static_cast<std::size_t>(map) <= i ? more : 0);
}

std::string_view kind_of(std::string_view view) { return view.substr(0, view.find('.')); }

void show_view(UiState& ui, const views::ViewList& views, const std::string& view, std::string_view instead_of) {
  if (DockPart* group = group_of(ui.arrangement, view)) return void(group->front = view);
  if (!instead_of.empty()) return open_instead(ui.arrangement, view, instead_of);
  const auto row = main_row(ui, views);
  if (!row.empty()) return open_beside(ui.arrangement, view, row.back()->id());
  if (has_window(ui.arrangement, kStrip)) return open_below(ui.arrangement, view, kStrip);
  open_above(ui.arrangement, view, kDeckPanel);
}

void close_view(UiState& ui, const std::string& view) {
  close_window(ui.arrangement, view);  // its look stays: a key of that view may have closed it, inside of its LookScope
  if (ui.maximised == view) ui.maximised.clear();
}

std::string open_another(UiState& ui, const views::Selection& selection, std::string_view view) {
  const std::string kind(kind_of(view));
  std::string id = kind;
  for (int n = 2; has_window(ui.arrangement, id); ++n) id = kind + "." + std::to_string(n);
  const auto look = ui.looks.find(std::string(view));
  const InstanceLook its = look != ui.looks.end() ? look->second : InstanceLook{.look = look_of(selection)};
  open_beside(ui.arrangement, id, view);
  if (id != kind) ui.looks[id] = its;
  return id;
}

}  // namespace kvscope::app
