#include "engine/core/record/run_chunk.h"

#include <algorithm>
#include <cstdlib>

namespace kvscope {

int chunk_of(const RunRecord& run) {
  // A prompt may have these words too; it comes last.
  const std::string line = run.command_line.substr(0, run.command_line.find(" --prompt "));
  constexpr std::string_view kOption = " --chunk ";
  const std::size_t at = line.find(kOption);
  return at == std::string::npos ? 0 : std::max(0, std::atoi(line.c_str() + at + kOption.size()));
}

std::string describe_chunk(int chunk) {
  if (chunk == 0) return "the prompt, then each token";
  return chunk == 1 ? "each token" : "every " + std::to_string(chunk) + " tokens";
}

}  // namespace kvscope
