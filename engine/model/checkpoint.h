#pragma once
// Tensors out of safetensors files. Includes LibTorch.

#include <filesystem>

#include "engine/core/model/safetensors.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"

namespace kvscope::engine {

/// One tensor on the CPU, in the file's own type. Throws Error naming file and tensor if it is absent, of another shape
/// or of a type that is no float.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& shape);

/// A source over a model's weight files, which must outlive it. `progress` is told the bytes read so far of all.
TensorSource checkpoint_source(const WeightFiles& files, const LoadProgress& progress, std::int64_t total_bytes);

}  // namespace kvscope::engine
