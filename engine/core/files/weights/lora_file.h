#pragma once
// LoRA adapters (Hu et al. 2021) in the files of PEFT: a small change of a model's matrices.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/core/files/weights/safetensors.h"

namespace kvscope {

/// adapter_config.json and adapter_model.safetensors of one folder. For each adapted matrix
///
///     W' = W + scale B A      A [rank, inputs], B [outputs, rank]
///     scale = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora
///
/// A is the tensor "base_model.model.NAME.lora_A.weight" for the matrix "NAME.weight", B the same with lora_B.
class LoraFile {
 public:
  /// The two tensors of one matrix.
  struct Pair {
    const TensorEntry *a = nullptr, *b = nullptr;
  };

  /// Whether an adapter stands in the folder, by its names.
  static bool is_there(const std::filesystem::path& folder);
  /// Throws Error (bad input) for damaged files, and for what is not such a sum: DoRA, biases, modules that are trained whole, other
  /// ranks by pattern.
  static LoraFile open(const std::filesystem::path& folder);

  /// By the matrix' name, "model.layers.0.self_attn.q_proj.weight".
  const std::map<std::string, Pair>& pairs() const { return pairs_; }
  int rank() const { return rank_; }
  double scale() const { return scale_; }
  /// Name of the folder.
  const std::string& name() const { return name_; }
  const SafetensorsFile& file() const { return file_; }
  /// Hex FNV-1a 64 over scale, header and bytes: reads the whole file, which a list of gates has no need of.
  std::string hash() const;

 private:
  explicit LoraFile(SafetensorsFile file) : file_(std::move(file)) {}
  void find_pairs();

  SafetensorsFile file_;
  std::map<std::string, Pair> pairs_;
  int rank_ = 0;
  double scale_ = 1;
  std::string name_;
};

}  // namespace kvscope
