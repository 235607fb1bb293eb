#pragma once
// What the blocks of a cluster do together; a block alone is a cluster of one (devices before compute capability 9).

#include <cooperative_groups.h>

namespace kvscope::kernels {

/// All threads of all blocks of a cluster arrive, then wait, in turns: what was written before the one is seen after the
/// other, and a block's shared memory may be used by others once all have arrived. A block alone waits for its own warps.
class Meeting {
 public:
  __device__ explicit Meeting(int n_blocks) : is_cluster_(n_blocks > 1) {}
  __device__ void arrive() const {
#if __CUDA_ARCH__ >= 900
    if (is_cluster_) asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
  }
  __device__ void wait() const {
#if __CUDA_ARCH__ >= 900
    if (is_cluster_) {
      asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
      return;
    }
#endif
    __syncthreads();
  }

 private:
  bool is_cluster_;
};

/// Where `mine`, in shared memory, is in block `rank` of the cluster.
template <typename T>
__device__ inline T* in_block(T* mine, int rank, int n_blocks) {
#if __CUDA_ARCH__ >= 900
  if (n_blocks > 1) return cooperative_groups::this_cluster().map_shared_rank(mine, rank);
#endif
  return mine;
}

}  // namespace kvscope::kernels
