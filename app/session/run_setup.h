#pragma once
// What window and command line share when they start a run.

#include <string>

#include "engine/core/protocol/protocol.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// The command that does this run again: `kvscope run MODEL --prompt ... --policy ...`, quoted for a POSIX shell.
std::string run_command_line(const std::string& model, const RunRequest& request);
/// The same by numbers of tokens (--prompt-ids, --answer-ids), for a run whose prompt no text gives: a replay, a fork, an
/// answer that goes on, a piece of a study. Empty where they are longer than a shell takes.
std::string tokens_command_line(const std::string& model, RunRequest request);
/// " --change Q:POLICY": the policy is another one from that query on.
std::string change_option(const PolicyChange& change);
/// The part of it that does not depend on model and prompt: "--policy ... --max-tokens ...".
std::string option_line(const RunRequest& request);
/// An empty record of a run that is about to start, for protocol::apply_event to fill.
RunRecord start_record(const ModelInfo& model, const RunRequest& request);

}  // namespace kvscope::app
