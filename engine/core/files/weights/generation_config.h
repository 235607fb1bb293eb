#pragma once
// generation_config.json: what a model's makers sample with, and where its texts end.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvscope {

/// How the model's makers sample from it; what they do not say is absent. Ranges are those of generation.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<int> top_k;                  // >= 0, 0: no limit
  std::optional<double> top_p, min_p;        // 0 ... 1
  std::optional<double> repetition_penalty;  // > 0, 1: none
  bool operator==(const GenerationDefaults&) const = default;
};

struct GenerationConfig {
  GenerationDefaults defaults;
  std::optional<std::vector<std::int32_t>> eos_ids;  // where the file names any
  std::vector<std::string> warnings;                 // one line each: what is left out, and why

  /// All absent if `folder` has no such file. No run samples by these numbers unless it is asked to, so one that cannot
  /// be used is left out with a warning, and so is a file that is damaged, as transformers does it.
  static GenerationConfig load(const std::filesystem::path& folder, int vocab_size);
};

/// An id, a list of ids, null or absent: the ids below vocab_size. No model of that vocabulary makes the others, so they
/// end nothing; a line for them goes to `warnings`.
std::vector<std::int32_t> token_ids(const nlohmann::json& object, const char* key, const std::string& file,
                                    int vocab_size, std::vector<std::string>& warnings);

}  // namespace kvscope
