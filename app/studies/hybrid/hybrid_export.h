#pragma once
// The heads of one point of a hybrid study, as kvscope heads writes them: the one place where they leave the study.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/studies/hybrid/hybrid_table.h"

namespace kvscope::app {

/// What the study's table says of how it was made.
nlohmann::ordered_json hybrid_facts(const HybridPlan& plan, const HybridEngine& engine);

/// Writes the point of that label to the plan's targets. What the heads come from is in the file where the format has room,
/// else beside it. Returns what a format could not hold. Throws Error.
std::vector<std::string> export_point(const HybridPlan& plan, const HybridEngine& engine, const HybridStudy& study,
                                      const StudyTable& table, const std::string& label);

}  // namespace kvscope::app
