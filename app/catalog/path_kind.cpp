#include "app/catalog/path_kind.h"

#include <system_error>

#include "app/catalog/models.h"
#include "app/catalog/prompt_lines.h"
#include "app/catalog/remote_file.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/weights/lora_file.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostOfRecipe = 1u << 20;

/// What kvscope figure takes and every export writes beside its figure.
bool is_recipe(const fs::path& path) {
  if (path.extension() != ".json") return false;
  try {
    const nlohmann::json root = read_json(path, {.max_bytes = kMostOfRecipe});
    const auto is_text = [&](const char* key) { return root.contains(key) && root[key].is_string(); };
    return root.is_object() && (is_text("figure") || is_text("preset"));
  } catch (const Error&) {
    return false;  // damaged, or larger than any recipe: its reader says so
  }
}

}  // namespace

PathKind kind_of_path(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    const auto remote = remote_file(path.string());
    if (remote && remote->is_trace()) return PathKind::trace;
    return find_model(path.string()) ? PathKind::model : PathKind::missing;
  }
  const bool folder = fs::is_directory(path, error);
  if (folder && fs::exists(path / "config.json", error) && fs::exists(path / "tokenizer.json", error))
    return PathKind::model;
  // Heads of DuoAttention have a config.json of their own: a gate goes before a model without a tokenizer.
  if (gate_format(path) || LoraFile::is_there(LoraFile::folder_of(path))) return PathKind::gate;
  if (folder) return fs::exists(path / "config.json", error) ? PathKind::model : PathKind::unknown;
  if (has_prompt_lines(path)) return PathKind::prompts;
  if (is_recipe(path)) return PathKind::recipe;
  return path.extension() == ".txt" || path.extension() == ".md" ? PathKind::prompt : PathKind::trace;
}

}  // namespace kvscope::app
