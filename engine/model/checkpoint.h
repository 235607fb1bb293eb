#pragma once
// Tensors out of safetensors files: one, or all of a model by several threads. Includes LibTorch.

#include <filesystem>

#include "engine/core/files/weights/safetensors.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"

namespace kvscope::engine {

/// One tensor on the CPU, in the file's own type. Throws Error naming file and tensor if it is absent, of another shape
/// or of a type that is no float.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& shape);

/// Reads a model's weight files, which must outlive it, in file order and in parts of 8 MiB. Up to 8 threads each read
/// a part, turn it into the model's type and send it to the device; so that host memory holds 8 parts beside what the
/// model itself is made of, a disk is asked for several parts at once, and no tensor is a step of its own.
///
/// `progress` is told the bytes so far and of all, at most 20 times a second, from the calling thread; when it throws,
/// reading stops within a part and the exception is passed on. What fails first in the order of the files is the Error
/// thrown, whichever thread came first.
class CheckpointReader final : public WeightReader {
 public:
  CheckpointReader(const WeightFiles& files, LoadProgress progress) : files_(files), progress_(std::move(progress)) {}
  void check(const std::string& name, const std::vector<std::int64_t>& shape) const override;
  bool has(const std::string& name) const override { return files_.has(name); }
  void read(const std::vector<TensorTarget>& targets) override;

 private:
  const WeightFiles& files_;
  LoadProgress progress_;
};

}  // namespace kvscope::engine
