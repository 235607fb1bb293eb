#pragma once
// LoRA adapters beside the model that they are added to.

#include <filesystem>
#include <string>

#include "engine/core/files/weights/lora_file.h"

namespace kvscope::app {

/// What a person should know before the adapter is added to this model, in one line; empty if there is nothing: that it
/// names another base, and that matrices which it targets have no tensors. Throws Error if it does not go with the model.
std::string adapter_note(const LoraFile& adapter, const std::filesystem::path& model);

/// The same of what is at `path`; empty too for what is no adapter, or is refused.
std::string note_of_adapter(const std::filesystem::path& path, const std::filesystem::path& model);

/// Whether `base`, a repository or somebody's path, may be the model in this folder: by the last part of either, the
/// repository in a download cache, and `_name_or_path` of config.json; upper and lower case are the same.
bool may_be_base(const std::string& base, const std::filesystem::path& model);

}  // namespace kvscope::app
