#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/embed_row.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T, int kRows>
__global__ void embed_row_kernel(const __grid_constant__ RowArgs<EmbedRowArgs, kRows> rows_of_launch) {
  const EmbedRowArgs& args = rows_of_launch.of(blockIdx.y);
  let_next_start();
  const T* row = static_cast<const T*>(args.table) + static_cast<long long>(*args.id) * args.dim;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < args.dim) args.out[i] = args.scale * to_float(row[i]);
}

}  // namespace

void cuda::embed_row(std::span<const EmbedRowArgs> rows, Stream stream) {
  const auto blocks_of = [](const EmbedRowArgs& args) { return (args.dim + kThreads - 1) / kThreads; };
  dispatch_dtype(rows.front().dtype, [&]<typename T>() {
    launch_rows(rows, blocks_of, [&]<int kRows>(const RowArgs<EmbedRowArgs, kRows>& launched, unsigned n) {
      // Not launch_dependent(): the first of a step follows a copy of the id, which is no kernel that one could wait for.
      embed_row_kernel<T, kRows><<<dim3(blocks_of(launched.row[0]), n), kThreads, 0, stream>>>(launched);
      check_launch();
    });
  });
}

}  // namespace kvscope::kernels
