#pragma once
// The one place that knows whether a GPU is there and how LibTorch gets to it.
//
// The engine links libtorch_cpu only, so that it starts on machines without CUDA libraries; libtorch_cuda is opened
// when a device is first wanted, and ATen works on CUDA from then on.

#include <cstdint>
#include <string>

namespace kvscope::engine {

/// Devices of the driver. `problem` says why there is none (no driver, a build without CUDA, LibTorch without CUDA).
struct CudaStatus {
  int n_devices = 0;
  std::string problem;
  std::string hint;
};
CudaStatus cuda_status();

/// Opens libtorch_cuda (once) and checks that `index` exists. Throws Error (resource) that says what is missing.
void open_cuda(int index);

/// "NVIDIA H200"; free and total bytes of memory.
struct CudaDevice {
  std::string name;
  std::int64_t free_bytes = 0, total_bytes = 0;
};
CudaDevice cuda_device(int index);

/// Gives the memory that LibTorch's allocator keeps for later back to the devices; nothing if none was ever opened.
void give_back_cached_memory();

/// "2.11.0": the LibTorch that was loaded.
std::string torch_version();

/// Settings that hold for the whole process: float32 products in full precision (no TF32), so that CPU and CUDA agree.
/// Called by every LoadedModel; idempotent.
void set_numerics();

}  // namespace kvscope::engine
