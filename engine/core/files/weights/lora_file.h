#pragma once
// LoRA adapters (Hu et al. 2021) in the files of PEFT: a small change of a model's matrices.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/core/files/weights/lora_config.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/safetensors.h"

namespace kvscope {

/// adapter_config.json and adapter_model.safetensors of one folder. For each adapted matrix
///
///     W' = W + scale B A      A [rank, inputs], B [outputs, rank]
///     scale = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora; rank_pattern and alpha_pattern change r and lora_alpha
///
/// A is the tensor "base_model.model.NAME.lora_A.weight" for the matrix "NAME.weight", B the same with lora_B.
class LoraFile {
 public:
  /// The two tensors of one matrix.
  struct Pair {
    const TensorEntry *a = nullptr, *b = nullptr;
    double scale = 0;
  };

  /// Whether an adapter is in the folder: one of its files is enough, so that half an adapter is an error and not none.
  static bool is_there(const std::filesystem::path& folder);
  /// The folder of an adapter's own file, or `path` itself.
  static std::filesystem::path folder_of(const std::filesystem::path& path);
  /// Throws Error (bad input) for damaged files, for what is not such a sum (LoraConfig), and for a tensor that the
  /// configuration does not explain.
  static LoraFile open(const std::filesystem::path& folder);

  /// By the matrix' name, "model.layers.0.self_attn.q_proj.weight".
  const std::map<std::string, Pair>& pairs() const { return pairs_; }
  const LoraConfig& config() const { return config_; }
  int rank() const { return config_.rank(); }
  /// Name of the folder.
  const std::string& name() const { return name_; }
  const SafetensorsFile& file() const { return file_; }
  /// Hex FNV-1a 64 over scales, header and bytes: reads the whole file, which a list of gates has no need of.
  std::string hash() const;
  /// Reads every value. Throws Error (bad input) naming the tensor for one that is not finite, or larger than any weight
  /// is (largest_weight): such an adapter would look like a damaged model.
  void check_values() const;
  static constexpr float largest_weight = 65504;  // of half precision
  /// Matrices of the model that the configuration targets and the file lacks: PEFT leaves them as they are. Throws Error
  /// if it would fill them with random numbers, for a target that is no matrix, and for a matrix of another model.
  std::vector<std::string> left_out(const ModelConfig& model) const;

 private:
  LoraFile(LoraConfig config, SafetensorsFile file) : config_(std::move(config)), file_(std::move(file)) {}
  void find_pairs();

  LoraConfig config_;
  SafetensorsFile file_;
  std::map<std::string, Pair> pairs_;
  std::string name_;
};

}  // namespace kvscope
