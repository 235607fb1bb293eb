#pragma once
// The few questions about CUDA devices that have to be answered before LibTorch's CUDA half is loaded.

#include <cstddef>
#include <string>

namespace kvscope::kernels {

/// CUDA devices that this process can use. 0 without a device, without a driver or in a build without CUDA; never
/// throws, since all of these are ordinary.
int device_count();

/// The name that the driver gives device `index`, e.g. "NVIDIA H200". Throws CudaError for an index that is not there.
std::string device_name(int index);

struct DeviceMemory {
  std::size_t free_bytes;
  std::size_t total_bytes;
};

/// Memory of device `index` at this moment, other processes' use included. Creates the device's context if there is
/// none. Leaves the calling thread's current device as it was. Throws CudaError.
DeviceMemory device_memory(int index);

}  // namespace kvscope::kernels
