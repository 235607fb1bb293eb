#pragma once
// A model and the gates it was loaded with: what runs are made on.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/model/model.h"

namespace kvscope::engine {

class TokenScorer;

/// A scorer, and what its gate's file says besides what it computes.
struct LoadedGate {
  std::shared_ptr<TokenScorer> scorer;
  std::optional<GateConfig> config;  // none of a scorer that no file describes
  std::vector<float> log_gamma;      // [n_layers * n_kv_heads] <= 0, each head's own decay; empty: it has none
};

/// Values of a head directory.
struct HeadDirectory {
  GateConfig config;
  std::vector<float> alpha;  // [n_layers * n_kv_heads]; empty: none was loaded
};

/// Where and in what a model computes (model.h), and what else it is to read.
struct LoadOptions {
  std::string device = "auto";
  std::string dtype = "auto";
  std::vector<std::string> gates =
      {};  // files and folders with scorers, gates, head values or an adapter, and pipe:COMMAND, see docs/reference/gates.md
  bool operator==(const LoadOptions&) const = default;
};

/// One model on one device. Immutable once made; any number of Generations may use it, from several threads unless one of
/// the gates is a program (is_for_one_thread()).
class LoadedModel {
 public:
  /// Model::load(), the gates of the options, and those beside the model. A folder of the options may have a LoRA adapter (lora_file.h),
  /// beside a gate or alone: it is added to the weights. Throws Error (usage) for two of them.
  static LoadedModel load(const std::filesystem::path& folder, const LoadOptions& options = {},
                          const LoadProgress& progress = {});
  /// Weights (and a scorer of `scorer_window` tokens' delay unless 0) drawn from a formula of names and indices, the
  /// same on every machine: tests and benchmarks need the shape of a model, not its file.
  static LoadedModel random(const ModelConfig& config, std::uint64_t seed, const LoadOptions& options = {},
                            int scorer_window = 0);

  const ModelConfig& config() const { return model_.config; }
  const ModelInfo& info() const { return model_.info; }
  const Weights& weights() const { return *model_.weights; }
  /// Throws Error (bad input) if the model has none.
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const { return model_.tokenizer != nullptr; }
  /// What the folder's files say and nobody follows, one line each.
  const std::vector<std::string>& warnings() const { return model_.warnings; }
  /// The first scorer of one of these kinds (of any, if none is named), in the order of LoadOptions::gates, then what
  /// stands beside the model; null if there is none.
  const TokenScorer* scorer(std::span<const std::string_view> kinds = {}) const;
  /// The same with its numbers.
  const LoadedGate* gate(std::span<const std::string_view> kinds = {}) const;
  /// All scorers, in that order.
  const std::vector<LoadedGate>& gates() const { return gates_; }
  bool is_for_one_thread() const;
  /// What they all say of policies' parameters.
  GatesOfModel gate_numbers() const;
  /// The window that KVpop's scorer was trained for, 0 without one.
  int scorer_delay() const;
  /// Uniform scores drawn from this seed; made when first asked for.
  const TokenScorer& random_scorer(std::uint64_t seed) const;
  const HeadDirectory& heads() const { return heads_; }
  /// "wgkv-0.01 1f2e...": what was read of gates, with GateFile::hash, in the order of loading.
  const std::vector<std::string>& gate_hashes() const { return gate_hashes_; }

 private:
  explicit LoadedModel(Model model) : model_(std::move(model)) {}
  void add(LoadedGate gate);
  /// A gate's file under a name, which may be empty. DMS also tells the weights its channel of the query: attention was trained without it, whatever
  /// policy runs.
  void add(const std::filesystem::path& path, const std::string& name);
  /// One of the options: a gate's file, or a program that scores (record/pipe_gate.h). No file names such a program.
  void add_given(const std::string& gate);

  Model model_;
  std::vector<LoadedGate> gates_;  // each scorer points to the model's weights
  HeadDirectory heads_;
  std::vector<std::string> gate_hashes_;
  mutable std::map<std::uint64_t, std::shared_ptr<TokenScorer>> random_;  // by seed
};

}  // namespace kvscope::engine
