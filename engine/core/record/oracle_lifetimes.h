#pragma once
#include "engine/core/record/run_record.h"

namespace kvscope {

/// The oracle's lifetimes from future mass, by the same running top-k (target = log(1e-6 + mass)).
void compute_oracle_lifetimes(RunRecord& run);

}  // namespace kvscope
