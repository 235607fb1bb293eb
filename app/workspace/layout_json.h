#pragma once
// Named layouts in the settings' file, and the looks of views that are open more than once.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/workspace/layout.h"

namespace kvscope::app {

/// [{"name", "left_panel", "inspector", "time_deck", "log", "arrangement", "looks"}]
nlohmann::json own_layouts_json(const std::vector<OwnLayout>& layouts);
/// Throws Error for anything else, for more than kMaxOwnLayouts, and for names that are empty, too long or there twice. A
/// view that this program does not know is kept and not drawn: a newer program may have it.
std::vector<OwnLayout> own_layouts_from(const nlohmann::json& list, const std::string& file);

/// {"layer_head_map.2": {"metric", ..., "own_head", "layer", "kv_head"}}
nlohmann::json looks_json(const InstanceLooks& looks);
InstanceLooks looks_from(const nlohmann::json& json, const std::string& file);

}  // namespace kvscope::app
