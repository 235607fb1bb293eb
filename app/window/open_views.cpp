#include "app/window/open_views.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "app/command/layouts.h"
#include "views/view_list.h"

namespace kvscope::app {

void make_open_views(UiState& ui, views::ViewList& views, const views::ViewServices& services,
                     const views::Selection& selection) {
  std::erase_if(
      views, [&](const auto& view) { return view->id() != view->kind() && !has_window(ui.arrangement, view->id()); });
  for (const std::string& id : windows_of(ui.arrangement)) {
    const std::string_view kind = kind_of(id);
    if (kind.size() == id.size() ||
        std::ranges::find(views, id, [](const auto& view) { return view->id(); }) != views.end())
      continue;
    int n = 0;
    const auto number = id.substr(kind.size() + 1);
    if (std::from_chars(number.data(), number.data() + number.size(), n).ec != std::errc() || n < 2) continue;
    std::unique_ptr<views::View> view = views::make_view(kind, services);
    if (!view) continue;
    view->set_number(n);
    if (view->id() != id) continue;  // "layer_head_map.02"
    views.push_back(std::move(view));
    ui.looks.try_emplace(id, InstanceLook{.look = look_of(selection)});
  }
}

}  // namespace kvscope::app
