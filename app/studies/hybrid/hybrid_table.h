#pragma once
// A study of hybrid heads as a table, and as text.

#include <nlohmann/json.hpp>

#include "app/studies/hybrid/hybrid_run.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// `request`: the words of the command line that decide the table; `facts`: HybridEngine::facts() and more.
StudyTable hybrid_table(const HybridStudy& study, const HybridEngine& engine, const nlohmann::ordered_json& request,
                        const nlohmann::ordered_json& facts);

/// A line a point: label, heads, coverage, bytes, NLL and its difference to dense with the 95 % interval, turnover.
std::string hybrid_text(const StudyTable& table);
/// One object: kind, facts, points (an object each, null for what was not measured), heads by value, tau.
nlohmann::ordered_json hybrid_json(const StudyTable& table);

/// What goes with the heads of one point into an export: the point's row, signal, policy and texts.
nlohmann::ordered_json point_json(const StudyTable& table, std::size_t row);

}  // namespace kvscope::app
