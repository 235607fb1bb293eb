#pragma once
// What window and command line share when they start a run.

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// An empty record of a run that is about to start, for protocol::apply_event to fill. Gives `asked` its key.
RunRecord start_record(const ModelInfo& model, Asked asked);

}  // namespace kvscope::app
