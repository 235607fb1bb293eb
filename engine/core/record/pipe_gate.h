#pragma once
// `--gate pipe:COMMAND`: a scorer that is a program beside the engine, started by a shell (docs/reference/gates.md). The command
// comes from a command line or from the window. What stands in a file starts nothing.

#include <string>
#include <string_view>

#include "engine/core/support/error.h"

namespace kvscope {

/// In the place of the command in a trace, and in the command that makes a run again.
inline constexpr std::string_view kPipeInFiles = "pipe:COMMAND";

bool is_pipe(std::string_view gate);
/// "python -m kvscope.scorer my.py:score" of "pipe:python -m kvscope.scorer my.py:score".
std::string pipe_command(std::string_view gate);
/// A gate as a file may have it: kPipeInFiles of a pipe, any other as it is.
std::string gate_in_files(const std::string& gate);
/// The line of an error as a trace may have it.
std::string line_in_files(const Error& error);
/// Throws Error (bad input) if a file names a pipe.
void refuse_pipe(std::string_view gate, const std::string& file);

}  // namespace kvscope
