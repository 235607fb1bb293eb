#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/embed_row.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void embed_row_kernel(EmbedRowArgs args) {
  let_next_start();
  const T* row = static_cast<const T*>(args.table) + static_cast<long long>(*args.id) * args.dim;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < args.dim) args.out[i] = to_float(row[i]);
}

}  // namespace

void cuda::embed_row(const EmbedRowArgs& args, Stream stream) {
  dispatch_dtype(args.dtype, [&]<typename T>() {
    // Not launch_dependent(): the first of a step follows a copy of the id, which is no kernel that one could wait for.
    embed_row_kernel<T><<<(args.dim + kThreads - 1) / kThreads, kThreads, 0, stream>>>(args);
    check_launch();
  });
}

}  // namespace kvscope::kernels
