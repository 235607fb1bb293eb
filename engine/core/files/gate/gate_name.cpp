#include "engine/core/files/gate/gate_name.h"

#include <system_error>

namespace kvscope {

std::string gate_name(const std::filesystem::path& path) {
  std::error_code none;
  const std::filesystem::path place = path.has_filename() ? path : path.parent_path();  // "wgkv/"
  return (std::filesystem::is_directory(place, none) ? place.filename() : place.stem()).string();
}

}  // namespace kvscope
