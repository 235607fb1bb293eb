#pragma once
// The pseudo-random weights of formula_source(), made where they are to be. Includes LibTorch.

#include "engine/model/weights.h"

namespace kvscope::engine {

/// Fills `out`, contiguous, with the tensor of that name of formula_source(), where it is and in its dtype: the same
/// values on every device and for any number of threads.
void fill_by_formula(const at::Tensor& out, const std::string& name, std::uint64_t seed);

/// Elements [begin, begin + n) of a matrix whose hash is `start`, by operations of tensors on `device`: float32.
at::Tensor formula_elements(std::uint64_t start, std::int64_t begin, std::int64_t n, float scale, c10::Device device);

/// A model of such weights: no copies, and on a GPU none of the work is the CPU's.
class FormulaReader final : public WeightReader {
 public:
  explicit FormulaReader(std::uint64_t seed) : seed_(seed) {}
  void check(const std::string&, const std::vector<std::int64_t>&) const override {}
  void read(const std::vector<TensorTarget>& targets) override;

 private:
  std::uint64_t seed_;
};

}  // namespace kvscope::engine
