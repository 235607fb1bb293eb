#pragma once
// What was not measured in a run, with the button that has the next run measure it.

#include <string>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Whether the metric needs a measurement that this run did not make.
bool is_unmeasured(const RunRecord& run, Metric metric);

/// "Not measured in A." and the button, where A, or B if it is `compared`, has no value of the metric for want of a
/// measurement. Nothing else: a preview, whose numbers need their own run, has other words.
void draw_measure_button(const ViewServices& services, const ViewContext& context, Metric metric, bool compared);

}  // namespace kvscope::views
