#include "engine/model/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <filesystem>

#include "engine/core/support/error.h"
#include "kernels/cuda_error.h"
#include "kernels/device.h"

namespace kvscope::engine {
namespace {

/// libtorch_cuda.so stands beside the libtorch_cpu.so that this process runs; the linker's search path need not know
/// it.
std::filesystem::path cuda_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr) {
    return "libtorch_cuda.so";
  }
  return std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
}

bool g_is_open = false;  // asking LibTorch before that would settle for it that there is no CUDA

/// Empty if LibTorch's CUDA half is loaded, else the loader's reason.
std::string open_library() {
  static const std::string problem = [] {
    g_is_open = dlopen(cuda_library().c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
    if (g_is_open) return std::string();
    const char* reason = dlerror();
    return std::string(reason != nullptr ? reason : "cannot be opened");
  }();
  return problem;
}

bool driver_is_loaded() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

}  // namespace

CudaStatus cuda_status() {
  CudaStatus status;
  status.n_devices = kernels::device_count();
  if (status.n_devices > 0) return status;
  if (!driver_is_loaded()) {
    status.problem = "no NVIDIA driver (libcuda.so.1 is missing)";
    status.hint = "install the driver of the card, or run on the CPU with --device cpu";
  } else {
    status.problem = "the NVIDIA driver is installed, but there is no device that this build can use";
    status.hint = "check nvidia-smi and CUDA_VISIBLE_DEVICES; KVScope needs a driver for CUDA 13";
  }
  return status;
}

void open_cuda(int index) {
  const CudaStatus status = cuda_status();
  if (index >= status.n_devices) {
    throw Error({.code = ExitCode::resource,
                 .file = "cuda:" + std::to_string(index),
                 .found = status.n_devices == 0 ? status.problem : std::to_string(status.n_devices) + " CUDA device(s)",
                 .expected = "a CUDA device of that number",
                 .hint = status.n_devices == 0 ? status.hint : "devices are counted from 0"});
  }
  if (const std::string problem = open_library(); !problem.empty()) {
    throw Error({.code = ExitCode::resource,
                 .file = cuda_library().string(),
                 .found = problem,
                 .expected = "LibTorch with CUDA",
                 .hint = "install the torch wheel with all its dependencies, or run on the CPU with --device cpu"});
  }
}

CudaDevice cuda_device(int index) {
  const kernels::DeviceMemory memory = kernels::device_memory(index);
  return {kernels::device_name(index), static_cast<std::int64_t>(memory.free_bytes),
          static_cast<std::int64_t>(memory.total_bytes)};
}

void give_back_cached_memory() {
  if (!g_is_open) return;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  if (allocator && allocator->initialized()) allocator->emptyCache();
}

std::string torch_version() { return TORCH_VERSION; }

void set_numerics() { at::globalContext().setFloat32MatmulPrecision("highest"); }

}  // namespace kvscope::engine
