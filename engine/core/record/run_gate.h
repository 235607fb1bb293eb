#pragma once
#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// The name of the gate by whose scores a run, or the preview of one, decided; empty: by none, or which it was is not known.
std::string gate_of(const RunRecord& run);

}  // namespace kvscope
