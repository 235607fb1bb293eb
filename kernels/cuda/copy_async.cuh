#pragma once
// Sixteen bytes at a time from global to shared memory without a detour through registers, in groups that complete in
// order (cp.async, compute capability 8).

#include <cuda_runtime.h>

namespace kvscope::kernels {

/// `shared` and `global` are multiples of 16. Where `wanted` is false zeros are written and nothing is read.
__device__ inline void copy_16_async(void* shared, const void* global, bool wanted) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = wanted ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}

/// The same for memory that is read once a step: it is the first to leave the second-level cache, so that what is written
/// and read again meanwhile stays there.
__device__ inline void copy_16_once_async(void* shared, const void* global, bool wanted) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = wanted ? 16 : 0;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(global),
               "r"(bytes), "l"(policy)
               : "memory");
}

/// Ends a group: what this thread has asked for since the last one.
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Returns when at most `kPending` groups of this thread are still on their way. Other threads' copies need a barrier.
template <int kPending>
__device__ inline void wait_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace kvscope::kernels
