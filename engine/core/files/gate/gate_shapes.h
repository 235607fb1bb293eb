#pragma once
// The tensors of each kind and their shapes in letters, and the sizes that follow from the shapes of a file.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_kinds.h"

namespace kvscope {

/// The tensors of a gate of these numbers.
std::vector<GateTensorSpec> gate_tensor_specs(const GateConfig& config);

/// "L H M 2D" without its first axis: one layer's.
std::string layer_shape(const GateTensorSpec& spec);

/// The sizes that letters stand for, 0 while unknown: L n_layers, H n_kv_heads, D head_dim, F hidden_size, M n_hidden,
/// K kernel.
class GateSizes {
 public:
  explicit GateSizes(const GateDims& known = {}, int n_hidden = 0, int kernel = 1);

  /// Compares a shape that was found with letters: an axis is a product such as "2D", "HM", "D/2" or "1". An unknown
  /// letter takes the value that makes its axis fit, when it is the only one there. Throws Error naming file, tensor,
  /// found and expected.
  void check(const std::string& letters, const std::vector<std::int64_t>& found, const std::string& file,
             const std::string& tensor);
  /// The shape that letters stand for; all of them must be known.
  std::vector<std::int64_t> shape(const std::string& letters) const;
  /// A file with tensors of `found` layers; throws Error if the model has another number.
  void check_layers(std::int64_t found, const std::string& file);

  GateDims dims() const;
  std::int64_t n_hidden() const { return value('M'); }

 private:
  /// Whether number * letters is `size`; an unknown letter takes the value that makes it so.
  bool fit(std::int64_t number, const std::string& letters, std::int64_t size);
  /// "[2, M, 128]": letters that are unknown stay.
  std::string show(const std::string& letters) const;
  std::int64_t value(char letter) const;
  std::int64_t& value(char letter);
  std::int64_t values_[6];
};

/// Sizes that a file states beside those of the model: throws Error if both are known and differ.
void check_dims(const GateDims& found, const GateDims& known, const std::string& file);
/// The known ones of both.
GateDims merge(const GateDims& a, const GateDims& b);

/// "[2, 4, 128]"
std::string show_shape(const std::vector<std::int64_t>& shape);

}  // namespace kvscope
