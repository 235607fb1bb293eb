#pragma once
// The models that this machine has, by name: the sample, what ./setup fetched, and the person's own Hugging Face cache.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvscope::app {

struct KnownModel {
  std::string name;            // "smollm2-135m", "gemma3-270m", "kvscope-tiny", "Qwen/Qwen3-0.6B"
  std::filesystem::path path;  // its folder; empty if it could be fetched and is not here
  std::string origin;          // "sample", "set-up" or "Hugging Face cache"
  std::string how;             // what would bring it, where it is not here
};

/// ${XDG_CACHE_HOME:-~/.cache}/kvscope/models; empty without a home.
std::filesystem::path model_cache();
/// $HF_HUB_CACHE, else $HF_HOME/hub, else ${XDG_CACHE_HOME:-~/.cache}/huggingface/hub.
std::filesystem::path hugging_face_cache();

/// Every model that has a name: set-up's, the sample, then those of the Hugging Face cache in order of name. Of a
/// repository with several snapshots the one that refs/main names, else the newest that is whole.
std::vector<KnownModel> known_models();
/// The folder of the model of that name (letters of any case), or nothing. A repository of the Hugging Face cache goes
/// by its last part too, if only one has it.
std::optional<std::filesystem::path> find_model(const std::string& name);

/// The folder that `text`, a path or a name, means. Throws Error that lists the names.
std::string model_folder(const std::string& text);
/// The same, but what is neither a folder nor a name here stays as it is: an engine on another machine may have it.
std::string model_folder_or(const std::string& text);

/// What a window without arguments opens: SmolLM2, if set-up fetched it, else the sample; empty if neither is here.
std::filesystem::path first_model();

}  // namespace kvscope::app
