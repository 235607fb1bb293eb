#pragma once
// The answers of a sweep as a study: one row for each policy and item, what follows from rows together, and the table that is
// shown.

#include <string>

#include "app/studies/sweep/sweep_journal.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// Of all answers that are there; a row of which none is has n = 0 and NaN. `kv_bytes`: of one cached token in all layers and
/// heads; NaN if the model cannot be read from here.
StudyTable sweep_table(const SweepPlan& plan, const SweepJournal& journal, double kv_bytes);

/// 2 * layers * KV heads * head_dim * bytes of a number, or NaN.
double kv_bytes_of_token(const SweepPlan& plan, const SweepJournal& journal);

/// For people: a table for each item, chunk and seed, the dense policy first, then by cost; '*' on the front, "knee" at it. Then values at
/// the costs of "matched".
std::string sweep_text(const StudyTable& table);

/// For programs: {"points": [{column: value}], "matched": [...]}, null for what was not measured.
nlohmann::ordered_json sweep_json(const StudyTable& table);

}  // namespace kvscope::app
