#pragma once
// PEFT's adapter_config.json of a LoRA adapter: which matrices it changes, and by how much.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/files/weights/module_pattern.h"

namespace kvscope {

/// What is understood is listed. Any other key that is set is refused by its name: the format grows, and most new keys
/// make an adapter more than W + scale B A (docs/reference/gates.md).
class LoraConfig {
 public:
  /// Throws Error (bad input) naming the key.
  LoraConfig(const nlohmann::json& json, const std::string& file);

  /// Whether PEFT adds a change to this module, "model.layers.0.self_attn.q_proj", if it is a matrix.
  bool targets(const std::string& module) const;
  /// Throws Error if two patterns say different things: PEFT takes the first in the file's order.
  int rank(const std::string& module) const;
  double scale(const std::string& module) const;
  const std::string& file() const { return file_; }
  int rank() const { return rank_; }
  double alpha() const { return alpha_; }
  bool is_rank_stabilized() const { return rslora_; }
  /// Of the model that it was trained on, as the file has it: a repository or a path; may be empty.
  const std::string& base() const { return base_; }
  /// Whether PEFT fills a matrix that it targets, and the file lacks, with random numbers that change the model.
  bool is_random_without_tensors() const { return random_; }
  /// What one call of targets(), rank() and scale() costs, about; see ModulePattern.
  std::size_t states() const;

 private:
  /// A list of names, or one pattern.
  struct Modules {
    std::vector<std::string> names;
    std::optional<ModulePattern> pattern;
    bool has(const std::string& module) const;
  };
  using Patterns = std::vector<std::pair<ModulePattern, double>>;

  Modules modules(const nlohmann::json& json, const char* key) const;
  Patterns patterns(const nlohmann::json& json, const char* key, double least, bool whole) const;
  void read_layers(const nlohmann::json& json);
  double value(const Patterns& patterns, const char* key, const std::string& module, double fallback) const;

  std::string file_, base_;
  int rank_ = 0;
  double alpha_ = 0;
  bool rslora_ = false, random_ = false, all_linear_ = false;
  Modules targets_, excluded_;
  std::optional<std::set<int>> layers_;  // none: all
  std::vector<std::string> layers_names_;
  Patterns ranks_, alphas_;
};

}  // namespace kvscope
