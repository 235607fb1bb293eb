#pragma once
// Why no head of a map has a value, and that sentence on the map.

#include <cstdint>
#include <string>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// In one sentence why a run whose heads have no value of `metric` at query q has none there; empty where it is not known.
/// Looks at every lifetime.
std::string why_no_value(const RunRecord& run, Metric metric, std::int32_t q);

/// Of this metric a preview has no value, whatever was measured in its run.
bool is_decoded_only(Metric metric);

/// Inside `map`, so that axes and numbers stay free, in as many lines as it has; cut after the last. Item `item` with the whole
/// text.
void draw_no_value_note(const ViewServices& services, const char* item, const ItemRect& map, const std::string& text);

}  // namespace kvscope::views
