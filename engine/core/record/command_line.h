#pragma once
// The command that makes a run again: a function of what the run was asked for.

#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// `kvscope run MODEL --policy ... --prompt TEXT`, quoted for a POSIX shell: by the prompt's text or messages where these
/// give its tokens, else by their numbers. Empty if they are more than a command line takes.
std::string command_line(const std::string& model, const Asked& asked);
/// The same with the changes that were made while the run went on. Empty also if the run does not record what was asked.
std::string command_line(const RunRecord& run);
/// The same as a trace keeps it: of another engine than KVScope's it says COMMAND, since the real one may name a machine.
std::string command_line_in_trace(const RunRecord& run);
/// Whether it is not empty, without writing it.
bool has_command(const RunRecord& run);
/// The part of it that depends neither on the model nor on the prompt: "--policy ... --max-tokens ...".
std::string option_line(const RunRequest& request);

}  // namespace kvscope
