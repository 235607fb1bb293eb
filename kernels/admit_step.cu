#include "kernels/cuda/admit_step.cuh"

namespace kvscope::kernels {

void cuda::admit_step(std::span<const AdmitStepArgs> rows, Stream stream) {
  dispatch_head_dim("admit_step", rows.front().cache.head_dim,
                    [&]<int kHeadDim>() { admit_heads<kHeadDim>(rows, stream); });
}

}  // namespace kvscope::kernels
