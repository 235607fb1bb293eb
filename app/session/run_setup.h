#pragma once
// What window and command line share when they start a run.

#include <string>

#include "engine/core/protocol/protocol.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// The command that does this run again: `kvscope run MODEL --prompt ... --policy ...`, quoted for a POSIX shell.
std::string run_command_line(const std::string& model, const RunRequest& request);
/// The part of it that does not depend on model and prompt: "--policy ... --max-tokens ...".
std::string option_line(const RunRequest& request);
/// An empty record of a run that is about to start, for protocol::apply_event to fill.
RunRecord start_record(const ModelInfo& model, const RunRequest& request);

}  // namespace kvscope::app
