#pragma once
// The tensors of one or more weights' files by name, whichever of the two formats they have.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_shapes.h"

namespace kvscope {

/// Reads .safetensors and .pt, .pth, .bin files, told apart by these endings. Shapes are read at once, values when asked for.
class GateSource {
 public:
  struct Item {
    std::vector<std::int64_t> shape;
    std::string file;
    std::function<std::vector<float>()> read;
  };

  explicit GateSource(const std::filesystem::path& file) : GateSource(std::vector{file}) {}
  /// Throws Error for a name that two files have.
  explicit GateSource(const std::vector<std::filesystem::path>& files);

  const std::map<std::string, Item>& items() const { return items_; }
  /// Throws Error naming the tensor if it is missing; `letters` is what it should have been.
  const Item& find(const std::string& name, const std::string& letters) const;
  const std::string& file() const { return file_; }  // the first one
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void add_safetensors(const std::filesystem::path& path);
  void add_pt(const std::filesystem::path& path);
  void add(const std::string& name, Item item);

  std::string file_;
  std::map<std::string, Item> items_;
  std::vector<std::string> warnings_;
};

/// How a tensor stands in a foreign file.
struct TensorLayout {
  bool transpose = false;      // its last two axes in the other order
  bool trailing_ones = false;  // axes of size 1 at its end that do not count
};

/// The tensor `name`, whose shape must be `letters`; the result's too. Throws Error.
GateTensor read_tensor(const GateSource& source, const std::string& name, const std::string& letters, GateSizes& sizes,
                       const TensorLayout& layout = {});

/// One tensor a layer, each of shape `letters`, layers 0 ... L - 1 after each other; the result's shape is `spec`'s.
GateTensor stack_layers(const GateSource& source, const std::function<std::string(std::int64_t layer)>& name,
                        const std::string& letters, const GateTensorSpec& spec, GateSizes& sizes,
                        const TensorLayout& layout = {});

/// One past the highest layer that a name has between `before` and `after`; 0 if none fits. Layers past 4096 are no
/// layers.
std::int64_t count_layers(const GateSource& source, const std::string& before, const std::string& after);

/// Zeros of the shape of `spec`, for a bias that the file leaves out.
GateTensor zeros(const GateTensorSpec& spec, const GateSizes& sizes);

}  // namespace kvscope
