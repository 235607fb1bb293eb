#pragma once
// All views, one line each in view_list.cpp.

#include <memory>
#include <vector>

#include "views/view_services.h"
#include "views/view_state.h"

namespace kvscope::views {

/// token_strip, layer_head_map, cache_timeline, inspector: in this order.
std::vector<std::unique_ptr<View>> make_views(const ViewServices& services);

}  // namespace kvscope::views
