#pragma once
// What a view's title offers: export, which views are open, maximise.

#include <string>

#include "app/window/panel.h"
#include "views/frame/view.h"

namespace kvscope::app {

/// "Layer x head map", of the second one "Layer x head map 2".
std::string title_of(const views::View& view);
/// At the right end of the tab bar that the view is in, if it is in front there. After its window has ended.
void draw_tab_buttons(Panel& panel, const views::ViewContext& context, const views::ViewList& views,
                      const views::View& view);
/// For a view that has no tab: in a region of `width`, at its top. A double click on the title maximises too.
void draw_view_title(Panel& panel, const views::ViewContext& context, const views::View& view, float width);

}  // namespace kvscope::app
