#pragma once
// Traces before version 7 keep a run's command instead of what the run was asked for. Here its words become that.

#include <memory>
#include <string_view>

#include "engine/core/record/run_record.h"

namespace kvscope::trace {

/// Of a run that is whole otherwise. Null for an empty line. `line` is a command as shell_quote() wrote it: a word is an
/// option only in an option's place, whatever the prompt says.
std::shared_ptr<const Asked> asked_of_command(const RunRecord& run, std::string_view line);

/// The number after --chunk, which before version 6 nothing else says; 0: none, or not a chunk.
int chunk_of_command(std::string_view line);

}  // namespace kvscope::trace
