#pragma once
// A person's own layouts in the settings' file.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/workspace/layout.h"

namespace kvscope::app {

/// [{"name", "left_panel", "inspector", "time_deck", "main_row": ["layer_head_map", ...]}]
nlohmann::json own_layouts_json(const std::vector<OwnLayout>& layouts);
/// Throws Error for anything else, for more than kMaxOwnLayouts, and for names that are empty, too long or there twice. A view that
/// does not exist is left to whoever draws: a newer program may have it.
std::vector<OwnLayout> own_layouts_from(const nlohmann::json& list, const std::string& file);

}  // namespace kvscope::app
