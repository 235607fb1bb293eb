#include "app/process/path_kind.h"

#include <system_error>

#include "app/process/models.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/weights/lora_file.h"

namespace kvscope::app {

namespace fs = std::filesystem;

PathKind kind_of_path(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return find_model(path.string()) ? PathKind::model : PathKind::missing;
  const bool folder = fs::is_directory(path, error);
  if (folder && fs::exists(path / "config.json", error) && fs::exists(path / "tokenizer.json", error))
    return PathKind::model;
  // Heads of DuoAttention have a config.json of their own: a gate goes before a model without a tokenizer.
  if (gate_format(path) || LoraFile::is_there(path)) return PathKind::gate;
  if (folder) return fs::exists(path / "config.json", error) ? PathKind::model : PathKind::unknown;
  return path.extension() == ".txt" || path.extension() == ".md" ? PathKind::prompt : PathKind::trace;
}

}  // namespace kvscope::app
