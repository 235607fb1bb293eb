#pragma once
// A .pt file of torch.save: a dict of tensors or a tensor, and nothing else.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/core/files/gate/zip_reader.h"

namespace kvscope {

struct PtTensor {
  std::string storage;      // its entry in the archive, "data/0"
  std::string type_name;    // "F32", "F16", "BF16"
  std::int64_t offset = 0;  // in elements
  std::vector<std::int64_t> shape, stride;
};

/// Reads what WG-KV's training saves (name -> Parameter) and a plain state_dict(). Never executes anything: the pickle
/// is read by pickle_reader.h. Every tensor is checked against its record before any of it is read. Throws Error.
class PtFile {
 public:
  static PtFile open(const std::filesystem::path& path);
  /// The same of a file that holds one tensor and no dict; its name is empty.
  static PtFile open_tensor(const std::filesystem::path& path);
  const std::map<std::string, PtTensor>& tensors() const { return tensors_; }
  std::vector<float> read(const PtTensor& tensor) const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  explicit PtFile(ZipFile zip) : zip_(std::move(zip)) {}
  static PtFile open_archive(const std::filesystem::path& path);
  ZipFile zip_;
  std::map<std::string, PtTensor> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace kvscope
