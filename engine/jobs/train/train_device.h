#pragma once
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace kvscope::engine {

/// Where a training runs: "cpu", "cuda", "cuda:N", or "auto": the first CUDA device if there is one. Opens LibTorch's
/// CUDA half when a device is wanted; the trainer is a library of its own that needs ATen only, no kernels of ours.
/// Throws Error: usage for other text, resource for a device that is not there.
at::Device training_device(const std::string& text);

/// "cuda:0,cuda:1", "cuda:all" or one device. Throws Error (usage) if they are of two kinds.
std::vector<at::Device> training_devices(const std::string& text);

}  // namespace kvscope::engine
