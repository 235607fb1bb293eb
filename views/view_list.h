#pragma once
// All views, one line each in view_list.cpp.

#include <string_view>

#include "views/frame/view.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// One of each kind.
ViewList make_views(const ViewServices& services);
/// Another one of a kind, "layer_head_map"; null for no kind.
std::unique_ptr<View> make_view(std::string_view kind, const ViewServices& services);

}  // namespace kvscope::views
