#include "engine/core/record/pipe_gate.h"

namespace kvscope {

static constexpr std::string_view kPrefix = "pipe:";

bool is_pipe(std::string_view gate) { return gate.starts_with(kPrefix); }

std::string pipe_command(std::string_view gate) { return std::string(gate.substr(kPrefix.size())); }

std::string gate_in_files(const std::string& gate) { return is_pipe(gate) ? std::string(kPipeInFiles) : gate; }

std::string line_in_files(const Error& error) {
  Error::Parts parts = error.parts();
  parts.file = gate_in_files(parts.file);
  return format_error(parts);
}

void refuse_pipe(std::string_view gate, const std::string& file) {
  if (!is_pipe(gate)) return;
  throw Error({.file = file,
               .where = "gate",
               .found = in_quotes(gate) + ", a command",
               .expected = "a path or a name: a file starts no program",
               .hint = "write --gate pipe:COMMAND on the command line"});
}

}  // namespace kvscope
