#include "engine/core/files/gate/gate_name.h"

#include <system_error>

#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/hash.h"

namespace kvscope {

std::string gate_name(const std::filesystem::path& path) {
  if (is_pipe(path.native())) return "pipe-" + hex_text(fnv1a64(path.native())).substr(0, 8);
  std::error_code none;
  const std::filesystem::path place = path.has_filename() ? path : path.parent_path();  // "wgkv/"
  return (std::filesystem::is_directory(place, none) ? place.filename() : place.stem()).string();
}

std::vector<std::string> gates_in_study(std::vector<std::string> gates) {
  for (std::string& gate : gates)
    if (is_pipe(gate)) gate = gate_name(gate);
  return gates;
}

}  // namespace kvscope
