#pragma once
// A checkpoint with a LoRA adapter added to it. Includes LibTorch.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "engine/core/files/weights/lora_file.h"
#include "engine/model/weights.h"

namespace kvscope::engine {

/// Whether an adapter stands in the folder.
bool has_adapter(const std::filesystem::path& folder);
/// The folder with an adapter among those of gates; empty if there is none. Throws Error (usage) for two.
std::filesystem::path adapter_of(const std::vector<std::string>& gates);

/// What `base` reads, and W + scale B A where the adapter has a matrix of that name; the sum is made in float32 and rounded once to the
/// model's type. Both must outlive it.
class AdaptedReader final : public WeightReader {
 public:
  AdaptedReader(WeightReader& base, const LoraFile& adapter) : base_(base), adapter_(adapter) {}
  /// Throws Error naming the adapter's tensor too if its shape is of another model.
  void check(const std::string& name, const std::vector<std::int64_t>& shape) const override;
  bool has(const std::string& name) const override { return base_.has(name); }
  void read(const std::vector<TensorTarget>& targets) override;
  /// Throws Error (bad input) if the adapter changes a matrix that was not read: it was made for another model.
  void check_all_used() const;

 private:
  WeightReader& base_;
  const LoraFile& adapter_;
  std::set<std::string> used_;
};

}  // namespace kvscope::engine
