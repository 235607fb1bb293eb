#include "kernels/cuda/admit_step.cuh"

namespace kvscope::kernels {

template void admit_heads<192>(std::span<const AdmitStepArgs> rows, Stream stream);
template void admit_heads<256>(std::span<const AdmitStepArgs> rows, Stream stream);

}  // namespace kvscope::kernels
