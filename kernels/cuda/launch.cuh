#pragma once
// Launching kernels of a decode step back to back, so that one begins while the one before still ends.

#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/dtype.h"

namespace kvscope::kernels {

/// Multiprocessors of the current device and whether it knows programmatic dependent launch (compute capability 9).
struct DeviceTraits {
  int n_multiprocessors;
  bool has_dependent_launch;
};
inline DeviceTraits device_traits() {
  int device = 0, n = 0, major = 0;
  cuda_check(cudaGetDevice(&device));
  cuda_check(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device));
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return {n, major >= 9};
}

/// Lets the next kernel of the stream start its blocks. To be called by every thread, as early as may be: the next one
/// waits by itself before it touches what this one writes.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Returns when the kernels before have ended and what they wrote can be read. Every thread of every block of a kernel
/// that is launched by launch_dependent() must call it, since the kernel after relies on it: what a kernel waited for
/// is over when the kernel itself is.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Asks for the cache line at `address` to be brought into the second-level cache. Safe for memory that somebody still
/// writes: nothing is read.
__device__ inline void prefetch_to_l2(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

/// Launches `kernel`, which calls wait_for_previous(), so that it may begin before the kernel before has ended.
template <typename... Params, typename... Args>
void launch_dependent(void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared_bytes, Stream stream,
                      Args&&... args) {
  if (shared_bytes > 32 * 1024) {  // 48 KB are there without asking, less what the kernel declares itself
    cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = device_traits().has_dependent_launch ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace kvscope::kernels
