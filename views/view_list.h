#pragma once
// All views, one line each in view_list.cpp.

#include "views/frame/view.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

ViewList make_views(const ViewServices& services);

}  // namespace kvscope::views
