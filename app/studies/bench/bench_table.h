#pragma once
// The rows of `kvscope bench` as a study.

#include <nlohmann/json.hpp>

#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// `request`: what the engine was asked for; `result`: the end of its job, with "rows". A row's member becomes a column; one
/// of min, median and max becomes NAME with NAME_low and NAME_high, the least and the most of the repetitions.
StudyTable bench_table(const nlohmann::json& request, const nlohmann::json& result);

}  // namespace kvscope::app
