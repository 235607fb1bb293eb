#pragma once
// Launching kernels of a decode step back to back, so that one begins while the one before still ends.

#include <utility>

#include "kernels/cuda/allow_shared.h"
#include "kernels/cuda/check.h"
#include "kernels/dtype.h"

namespace kvscope::kernels {

/// Multiprocessors of the current device and whether it knows programmatic dependent launch and clusters of blocks
/// (compute capability 9).
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

/// Launches a kernel by itself.
template <typename... Args>
void launch_shared(void (*kernel)(Args...), dim3 grid, int threads, std::size_t shared_bytes, Stream stream,
                   Args... args) {
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  kernel<<<grid, threads, shared_bytes, stream>>>(args...);
  check_launch();
}

namespace detail {
/// With `cluster_blocks` 0 there are no clusters.
template <typename Kernel, typename... Args>
void launch_dependent(Kernel kernel, dim3 grid, unsigned cluster_blocks, int threads, std::size_t shared_bytes,
                      Stream stream, Args&&... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster_blocks;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !device_traits().has_dependent_launch ? 0 : cluster_blocks > 0 ? 2 : 1;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}
}  // namespace detail

/// Launches `kernel`, which calls wait_for_previous(), so that it may begin before the kernel before has ended.
template <typename... Params, typename... Args>
void launch_dependent(void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared_bytes, Stream stream,
                      Args&&... args) {
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  detail::launch_dependent(kernel, grid, 0, threads, shared_bytes, stream, std::forward<Args>(args)...);
}

/// The same for clusters of `cluster_blocks` neighbouring blocks each, on a device that has them: `n_clusters` of them.
template <typename... Params, typename... Args>
void launch_dependent_clusters(void (*kernel)(Params...), dim3 n_clusters, unsigned cluster_blocks, int threads,
                               std::size_t shared_bytes, Stream stream, Args&&... args) {
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  const dim3 grid(n_clusters.x * cluster_blocks, n_clusters.y);
  detail::launch_dependent(kernel, grid, cluster_blocks, threads, shared_bytes, stream, std::forward<Args>(args)...);
}

/// How many clusters of `cluster_blocks` blocks the device runs at once.
template <typename... Params>
int most_clusters(void (*kernel)(Params...), unsigned cluster_blocks, int threads, std::size_t shared_bytes) {
  if (cluster_blocks == 1) return device_traits().n_multiprocessors;
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster_blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(cluster_blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int n = 0;
  cuda_check(cudaOccupancyMaxActiveClusters(&n, kernel, &config));
  return n;
}

}  // namespace kvscope::kernels
