#pragma once
#include <string>

#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/run_record.h"

namespace kvscope {

/// The name of the gate by whose scores a run, or the preview of one, decided; empty: by none, or which it was is not known.
inline std::string gate_of(const RunRecord& run) {
  return run.scorer.kind.empty() ? "" : gate_of_scorer(run.scorer.text);  // else the text says what the model has
}

}  // namespace kvscope
