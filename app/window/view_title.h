#pragma once
// The row above a view: its title, and at the right export, which views are side by side, and maximise.

#include "app/window/panel.h"
#include "views/frame/view.h"

namespace kvscope::app {

/// In a region of `width`, at its top. A double click on the title maximises too.
void draw_view_title(Panel& panel, const views::ViewContext& context, const views::ViewList& views,
                     const views::View& view, float width);

}  // namespace kvscope::app
