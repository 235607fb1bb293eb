#pragma once
// A model ready to run: configuration, weights on a device, tokenizer, and the scorers and gates that belong to it.
// No LibTorch here, so that tasks, bench and server compile quickly; the tensors are in model/weights.h.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/record/run_record.h"

namespace kvscope::engine {

struct Weights;
class TokenScorer;

/// Where and in what a model computes. "auto" is the first CUDA device if there is one, else the CPU; and bfloat16 on
/// CUDA, float32 on the CPU.
struct LoadOptions {
  std::string device = "auto";          // "auto", "cpu", "cuda", "cuda:1"
  std::string dtype = "auto";           // "auto", "float32", "bfloat16"
  std::vector<std::string> gates = {};  // files and folders with scorers, gates or head values, see docs/gates.md
  bool operator==(const LoadOptions&) const = default;
};

/// Bytes read so far and in all. May throw to stop the loading.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// One model on one device. Immutable once made; any number of Generations may use it, from one thread at a time.
class LoadedModel {
 public:
  /// Reads a Hugging Face folder (config.json, *.safetensors, tokenizer.json; kvpop_scorer.{json,safetensors} if
  /// there). Throws Error: bad input for the files, resource for a device that is missing or too small.
  static LoadedModel load(const std::filesystem::path& folder, const LoadOptions& options = {},
                          const LoadProgress& progress = {});
  /// Weights (and a scorer of `scorer_window` tokens' delay unless 0) drawn from a formula of names and indices, the
  /// same on every machine: tests and benchmarks need the shape of a model, not its file. It has no tokenizer.
  static LoadedModel random(const ModelConfig& config, std::uint64_t seed, const LoadOptions& options = {},
                            int scorer_window = 0);
  ~LoadedModel();
  LoadedModel(LoadedModel&&) noexcept;
  LoadedModel& operator=(LoadedModel&&) noexcept;

  const ModelConfig& config() const;
  const ModelInfo& info() const;
  const Weights& weights() const;
  /// Throws Error (bad input) if the model has none.
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const;
  /// The first scorer of one of these kinds (of any, if none is named), in the order of LoadOptions::gates, then what
  /// stands beside the model; null if there is none.
  const TokenScorer* scorer(std::span<const std::string_view> kinds = {}) const;
  /// The window that KVpop's scorer was trained for, 0 without one.
  int scorer_delay() const;
  /// Uniform scores drawn from this seed; made when first asked for.
  const TokenScorer& random_scorer(std::uint64_t seed) const;
  /// Values of a loaded head directory, [n_layers * n_kv_heads]; empty if none is loaded.
  const std::vector<float>& head_alpha() const;

 private:
  struct Impl;
  explicit LoadedModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope::engine
