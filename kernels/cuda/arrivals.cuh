#pragma once
// A barrier in shared memory that counts arrivals (mbarrier): a thread that arrives goes on, a thread that waits returns
// when all have arrived. Arrivals may come from other blocks of the cluster. It needs compute capability 9: on older
// devices these functions do nothing, and kernels that use them are not launched.

#include <cuda_runtime.h>

#include <cstdint>

namespace kvscope::kernels {

/// In shared memory. Phases alternate between parity 0 and 1, beginning with 0.
class Arrivals {
 public:
  /// By one thread, before a fence and a meeting of the cluster.
  __device__ void expect(unsigned n) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(n) : "memory");
#endif
  }

  /// Makes all expect() of this thread known to the cluster.
  __device__ static void publish() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }

  /// Arrives at this barrier of this block. What the thread wrote before, and what it has seen, is seen by who waits.
  __device__ void arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
#endif
  }

  /// The same at that of block `rank` of the cluster.
  __device__ void arrive_in(int rank) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n .reg .b32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
        " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(address()),
        "r"(rank)
        : "memory");
#endif
  }

  /// Returns when the phase of `parity` is over.
  __device__ void wait(unsigned parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n .reg .pred done;\n again:\n"
        " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        " @!done bra again;\n}" ::"r"(address()),
        "r"(parity)
        : "memory");
#endif
  }

 private:
  __device__ unsigned address() { return static_cast<unsigned>(__cvta_generic_to_shared(this)); }

  std::uint64_t state_;
};

}  // namespace kvscope::kernels
