#include "app/window/dock.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "app/command/layouts.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using Split = DockPart::Split;

constexpr int kFramesToSettle = 3, kFramesToDrop = 1;
constexpr float kSameShare = 0.004f;  // a pixel of a small part
constexpr float kLeastView = 200;     // design pixels: where views beside each other would be narrower they become tabs
constexpr float kStripShare = 0.46f, kMostOfStrip = 0.56f, kLeastStrip = 210;  // shares; design pixels
const std::string kId =
    "###in.";  // Dear ImGui leaves out what is before it; a panel may have a region of the same name
constexpr ImGuiDockNodeFlags kNoMenu = ImGuiDockNodeFlags_NoWindowMenuButton, kNoTabs = ImGuiDockNodeFlags_NoTabBar;

bool is_panel(std::string_view id) { return id == kLeftPanel || id == kLogPanel || id == kDeckPanel; }
bool is_view(std::string_view id) { return !is_panel(id) && id != kInspector; }
bool has_view(const DockPart& part) { return std::ranges::any_of(windows_of(part), is_view); }
bool has_panel(const DockPart& part) { return !std::ranges::all_of(windows_of(part), is_view); }

ImGuiID window_id(const std::string& id) { return ImHashStr((kId + id).c_str()); }

ImGuiID tab_id(const std::string& id) { return ImHashStr("#TAB", 0, window_id(id)); }

/// Where a window is docked, also one that is not on show or was never drawn; 0: nowhere.
ImGuiID node_of(const std::string& id) {
  if (const ImGuiWindow* window = ImGui::FindWindowByID(window_id(id)))
    return window->DockNode ? window->DockNode->ID : window->DockId;
  const ImGuiWindowSettings* settings = ImGui::FindWindowSettingsByID(window_id(id));
  return settings ? settings->DockId : 0;
}

// ------------------------------------------------------------------------------------------------ build

class Builder {
 public:
  Builder(Panel& panel, const views::ViewList& views) : panel_(panel), views_(views) {}

  void place(ImGuiID node, const DockPart& part, ImVec2 size, const std::vector<std::string>& row = {}) {
    if (part.split == Split::none) return dock(node, part.tabs, part.front);
    const std::vector<std::string> windows = windows_of(part);
    const bool across = part.split == Split::across;
    if (across && !has_panel(part) && size.x < panel_.px(kLeastView) * leaves(part))
      return dock(node, windows, "");  // as tabs: slivers show nothing
    const std::vector<std::string>& whole = across && !has_panel(part) ? (row.empty() ? windows : row) : kNone;
    const float share = std::clamp(part.share > 0 ? part.share : wanted(part, size, whole), 0.05f, 0.95f);
    // The second part inherits what makes a node central: it stays when all views are hidden, so it has views.
    const bool first_has_views = has_view(part.parts[0]) && !has_view(part.parts[1]);
    ImGuiID first = 0, second = 0;
    if (first_has_views) {
      ImGui::DockBuilderSplitNode(node, across ? ImGuiDir_Right : ImGuiDir_Down, 1 - share, &second, &first);
    } else {
      ImGui::DockBuilderSplitNode(node, across ? ImGuiDir_Left : ImGuiDir_Up, share, &first, &second);
    }
    place(first, part.parts[0], across ? ImVec2{size.x * share, size.y} : ImVec2{size.x, size.y * share}, whole);
    place(second, part.parts[1], across ? ImVec2{size.x * (1 - share), size.y} : ImVec2{size.x, size.y * (1 - share)},
          whole);
  }

 private:
  static inline const std::vector<std::string> kNone;

  static float leaves(const DockPart& part) {
    if (part.split == Split::none) return 1;
    const float a = leaves(part.parts[0]), b = leaves(part.parts[1]);
    return part.split == Split::across ? a + b : std::max(a, b);
  }

  void dock(ImGuiID node, const std::vector<std::string>& tabs, const std::string& front) {
    for (const std::string& id : tabs) ImGui::DockBuilderDockWindow((kId + id).c_str(), node);
    ImGuiDockNode* made = ImGui::DockBuilderGetNode(node);
    if (made == nullptr || tabs.empty()) return;
    made->SelectedTabId = tab_id(front.empty() ? tabs.front() : front);
    if (std::ranges::any_of(tabs, is_panel))
      made->SetLocalFlags(made->LocalFlags | kNoTabs | ImGuiDockNodeFlags_NoDockingOverMe);
  }

  /// What the parts need, where no hand has chosen: panels as many pixels as they have text for.
  float wanted(const DockPart& part, ImVec2 size, const std::vector<std::string>& row) const {
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    const auto pixels = [&](float least, float most, float design) {
      return std::max(panel_.px(least), std::min(most, panel_.px(design)));
    };
    const auto is = [](const DockPart& one, std::string_view id) {
      return one.tabs.size() == 1 && one.tabs.front() == id;
    };
    const DockPart &first = part.parts[0], &second = part.parts[1];
    if (is(first, kLeftPanel)) return pixels(260, 0.29f * screen.x, 372) / size.x;
    if (is(second, kInspector)) return 1 - pixels(220, 0.23f * screen.x, 330) / size.x;
    if (is(second, kDeckPanel)) return 1 - panel_.px(132) / size.y;
    if (is(second, kLogPanel)) return 1 - std::min(panel_.px(150), 0.15f * screen.y) / size.y;
    if (is(first, kStrip) && part.split == Split::down)
      return std::clamp(panel_.px(kLeastStrip) / size.y, kStripShare, kMostOfStrip);
    if (row.empty()) return 0.5f;
    const auto end = [&](const DockPart& of) {  // of its last view, as a share of the row
      return end_at_first(row, static_cast<std::size_t>(std::ranges::find(row, windows_of(of).back()) - row.begin()));
    };
    const auto at = std::ranges::find(row, windows_of(first).front()) - row.begin();
    const float begin = at > 0 ? end_at_first(row, static_cast<std::size_t>(at) - 1) : 0;
    return (end(first) - begin) / std::max(1e-3f, end(second) - begin);
  }

  Panel& panel_;
  const views::ViewList& views_;
};

// ------------------------------------------------------------------------------------------------ read back

class NodeReader {
 public:
  explicit NodeReader(const Arrangement& asked) {
    for (const std::string& id : windows_of(asked)) windows_[node_of(id)].push_back(id);
  }

  Arrangement read(ImGuiID root) {
    Arrangement all;
    if (const ImGuiDockNode* node = ImGui::DockBuilderGetNode(root)) all.docked = part(*node);
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    std::set<ImGuiID> seen;
    for (const auto& [id, windows] : windows_) {
      ImGuiDockNode* node = ImGui::DockBuilderGetNode(id);
      if (node == nullptr) continue;
      const ImGuiDockNode* group = ImGui::DockNodeGetRootNode(node);
      if (group->ID == root || !seen.insert(group->ID).second) continue;
      all.floating.push_back({part(*group), share(group->Pos.x, screen.x), share(group->Pos.y, screen.y),
                              share(group->Size.x, screen.x), share(group->Size.y, screen.y)});
    }
    return all;
  }

 private:
  static float share(float value, float whole) {
    return std::clamp(std::round(value / whole * 2000) / 2000, -1.f, 1.f);
  }

  DockPart part(const ImGuiDockNode& node) {
    DockPart read;
    if (node.IsLeafNode()) {
      read.tabs = windows_[node.ID];
      const auto place =
          [&](const std::string& id) {  // in the bar; those that are not in it keep their order after them
            const ImGuiID wanted = window_id(id);
            for (int i = 0; node.TabBar != nullptr && i < node.TabBar->Tabs.Size; ++i) {
              const ImGuiWindow* window = node.TabBar->Tabs[i].Window;
              if (window != nullptr && window->ID == wanted) return i;
            }
            return 1 << 20;
          };
      std::ranges::stable_sort(read.tabs, {}, place);
      for (const std::string& id : read.tabs) {
        if (read.tabs.size() > 1 && tab_id(id) == node.SelectedTabId) read.front = id;
      }
      return read;
    }
    DockPart first = part(*node.ChildNodes[0]), second = part(*node.ChildNodes[1]);
    const auto empty = [](const DockPart& one) { return one.tabs.empty() && one.parts.empty(); };
    if (empty(first)) return second;
    if (empty(second)) return first;
    const bool across = node.SplitAxis == ImGuiAxis_X;
    const ImVec2 a = node.ChildNodes[0]->SizeRef, b = node.ChildNodes[1]->SizeRef;
    const float from = across ? a.x : a.y, all = across ? a.x + b.x : a.y + b.y;
    read.split = across ? Split::across : Split::down;
    read.share = all > 0 ? std::clamp(from / all, 0.02f, 0.98f) : 0.5f;
    read.parts.push_back(std::move(first));
    read.parts.push_back(std::move(second));
    return read;
  }

  std::map<ImGuiID, std::vector<std::string>> windows_;
};

bool same(const DockPart& a, const DockPart& b) {
  return a.split == b.split && std::abs(a.share - b.share) < kSameShare && a.tabs == b.tabs && a.front == b.front &&
         a.parts.size() == b.parts.size() &&
         (a.parts.empty() || (same(a.parts[0], b.parts[0]) && same(a.parts[1], b.parts[1])));
}

bool same(const Arrangement& a, const Arrangement& b) {
  return same(a.docked, b.docked) && std::ranges::equal(a.floating, b.floating, [](const auto& x, const auto& y) {
           return same(x.part, y.part) && x.x == y.x && x.y == y.y && x.w == y.w && x.h == y.h;
         });
}

/// Dear ImGui adds tabs in the order in which their windows begin: here they get the order and the front that was asked for.
void order_tabs(const Arrangement& asked) {
  std::map<ImGuiID, std::vector<std::string>> windows;
  for (const std::string& id : windows_of(asked)) windows[node_of(id)].push_back(id);
  Arrangement copy = asked;
  for (const auto& [node_id, ids] : windows) {
    ImGuiDockNode* node = ImGui::DockBuilderGetNode(node_id);
    if (node == nullptr || node->TabBar == nullptr || ids.size() < 2) continue;
    const auto place = [&](const ImGuiTabItem& tab) {
      return std::ranges::find(ids, tab.Window ? tab.Window->ID : 0, window_id) - ids.begin();
    };
    std::stable_sort(node->TabBar->Tabs.begin(), node->TabBar->Tabs.end(),
                     [&](const ImGuiTabItem& a, const ImGuiTabItem& b) { return place(a) < place(b); });
    const std::string& front = group_of(copy, ids.front())->front;
    const bool known = std::ranges::find(ids, front) != ids.end();
    node->SelectedTabId = node->TabBar->NextSelectedTabId = tab_id(known ? front : ids.front());
  }
}

/// What was not moved stays as it was asked for: shares that were left open, and views that are tabs for want of room.
void keep_unmoved(const DockPart& asked, const DockPart& before, DockPart& now) {
  if (same(before, now)) return void(now = DockPart(asked));
  if (asked.split != now.split || before.split != now.split || now.parts.empty()) return;
  if (std::abs(before.share - now.share) < kSameShare) now.share = asked.share;
  for (const std::size_t i : {0, 1}) keep_unmoved(asked.parts[i], before.parts[i], now.parts[i]);
}

/// "split.left": of the two parts beside it the one that has no dividers, for scripts that drag it.
void name_dividers(Panel& panel, const ImGuiDockNode& node) {
  if (node.IsLeafNode()) return;
  const ImGuiDockNode &first = *node.ChildNodes[0], &second = *node.ChildNodes[1];
  for (const ImGuiDockNode* child : node.ChildNodes) name_dividers(panel, *child);
  const ImGuiDockNode& simple = second.IsLeafNode() ? second : first;
  if (!first.IsVisible || !second.IsVisible || !simple.IsLeafNode() || simple.Windows.empty()) return;
  const bool across = node.SplitAxis == ImGuiAxis_X;
  const ImVec2 from{across ? first.Pos.x + first.Size.x : first.Pos.x,
                    across ? first.Pos.y : first.Pos.y + first.Size.y};
  const ImVec2 to{across ? second.Pos.x : first.Pos.x + first.Size.x,
                  across ? first.Pos.y + first.Size.y : second.Pos.y};
  panel.services.items->add("split." + docked_id(simple.Windows[0]->Name), views::item_rect(from, to));
}

ImGuiID root_id() { return ImHashStr("kvscope dock"); }

}  // namespace

std::string dock_name(std::string_view title, std::string_view id) {
  return std::string(title) + kId + std::string(id);
}

std::string docked_id(const std::string& window) {
  const auto id = window.find(kId);
  return id == std::string::npos ? window : window.substr(id + kId.size());
}

void Dock::build(Panel& panel, const views::ViewList& views, ImVec2 at, ImVec2 size) {
  const Arrangement& asked = panel.ui.arrangement;
  for (const FloatingPart& floating : built_.floating) {
    for (const std::string& id : windows_of(floating.part)) ImGui::DockBuilderDockWindow((kId + id).c_str(), 0);
  }
  ImGui::DockBuilderAddNode(root_id(), ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodePos(root_id(), at);
  ImGui::DockBuilderSetNodeSize(root_id(), size);
  Builder builder(panel, views);
  builder.place(root_id(), asked.docked, size);
  ImGui::DockBuilderFinish(root_id());
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  for (const FloatingPart& floating : asked.floating) {
    const ImGuiID node = ImGui::DockBuilderAddNode();
    const ImVec2 its{std::max(panel.px(160), floating.w * screen.x), std::max(panel.px(120), floating.h * screen.y)};
    // A window that is now smaller still shows all of it.
    ImGui::DockBuilderSetNodePos(node, {std::clamp(floating.x * screen.x, 0.f, std::max(0.f, screen.x - its.x)),
                                        std::clamp(floating.y * screen.y, 0.f, std::max(0.f, screen.y - its.y))});
    ImGui::DockBuilderSetNodeSize(node, its);
    builder.place(node, floating.part, its);
    ImGui::DockBuilderFinish(node);
  }
  built_ = asked, at_ = at, size_ = size, scale_ = panel.theme().scale;
  settling_ = kFramesToSettle;
}

void Dock::begin(Panel& panel, const views::ViewList& views, ImVec2 at, ImVec2 size) {
  // In a window of 40 x 30 nested splits would have no room for their dividers, and Dear ImGui asserts that a visible node
  // has a size. The dock then reaches past the window's edge.
  size = {std::max(panel.px(240), size.x), std::max(panel.px(160), size.y)};
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  ImGui::Begin("dock", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNavFocus |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::PopStyleVar(3);
  ImGui::BringWindowToDisplayBack(ImGui::GetCurrentWindow());  // bars and the left panel are windows over it
  const bool moved = at.x != at_.x || at.y != at_.y || size.x != size_.x || size.y != size_.y;
  if (panel.ui.arrangement != built_ || moved || panel.theme().scale != scale_) build(panel, views, at, size);
  // It would fill all of it, and the views fill it again: a tenth of a frame where the CPU rasterises.
  ImGui::PushStyleColor(ImGuiCol_WindowBg, 0);
  ImGui::DockSpace(root_id(), {0, 0}, kNoMenu | ImGuiDockNodeFlags_PassthruCentralNode);
  ImGui::PopStyleColor();
  if (const ImGuiDockNode* root = ImGui::DockBuilderGetNode(root_id())) name_dividers(panel, *root);
  if (const ImGuiDockNode* central = ImGui::DockBuilderGetCentralNode(root_id()))
    views_at_ = central->Pos, views_size_ = central->Size;
  ImGui::End();
}

void Dock::next_window(Panel& panel, bool tabs) {
  ImGuiWindowClass look;
  look.DockingAlwaysTabBar = tabs;
  look.DockNodeFlagsOverrideSet = kNoMenu | (tabs ? 0 : kNoTabs | ImGuiDockNodeFlags_NoUndocking);
  ImGui::SetNextWindowClass(&look);
  ImGui::SetNextWindowSize({panel.px(420), panel.px(320)}, ImGuiCond_FirstUseEver);
}

void Dock::end(Panel& panel) {
  if (ImGui::IsAnyMouseDown()) return void(dropping_ = kFramesToDrop);
  if (dropping_ > 0) {  // Dear ImGui docks what was dropped with the frame after
    --dropping_;
    if (panel.services.wake) panel.services.wake();
    return;
  }
  if (settling_ > 0) {
    if (--settling_ == 1) order_tabs(built_);
    if (settling_ == 0) as_built_ = NodeReader(panel.ui.arrangement).read(root_id());
    if (panel.services.wake) panel.services.wake();
    return;
  }
  if (panel.ui.arrangement != built_) return;  // a command of this frame: built with the next
  Arrangement now = NodeReader(panel.ui.arrangement).read(root_id());
  if (same(now, as_built_)) return;
  const Arrangement before = std::exchange(as_built_, now);
  keep_unmoved(panel.ui.arrangement.docked, before.docked, now.docked);
  panel.ui.arrangement = std::move(now);
  // What was dragged out of the central part has left it empty, and it would stay: built anew without it.
  const ImGuiDockNode* central = ImGui::DockBuilderGetCentralNode(root_id());
  if (central == nullptr || !central->IsEmpty()) built_ = panel.ui.arrangement;
}

}  // namespace kvscope::app
