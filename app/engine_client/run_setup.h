#pragma once
// What window and command line share when they start a run.

#include "engine/core/protocol/engine_offer.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// An empty record of a run that is about to start, for protocol::apply_event to fill. Gives `asked` its key. `recorder`: as
/// EngineOffer has it.
RunRecord start_record(const ModelInfo& model, Asked asked, std::string recorder = {});

/// Throws Error (usage) for what the engine does not offer.
void check_offered(const protocol::EngineOffer& offer, const protocol::Request& request);

}  // namespace kvscope::app
