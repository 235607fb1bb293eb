#include "kernels/rms_norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void rms_norm(const RmsNormArgs& args) {
  std::vector<float> buffer_of_weight(args.dim);
  const float* weight = norm_factors(args.weight, args.dim, args.dtype, args.weight_offset, buffer_of_weight.data());
  parallel_for(args.n_rows, 4 * args.dim, [&](std::int64_t row) {
    // One buffer a thread: this runs once a row, and an allocation would cost as much as the norm.
    thread_local std::vector<float> buffer;
    buffer.resize(2 * static_cast<std::size_t>(args.dim));
    const float* x = as_floats(args.x, row * args.x_stride, args.dim, args.dtype, buffer.data());
    const float inverse = 1 / std::sqrt(dot(x, x, args.dim) / static_cast<float>(args.dim) + args.eps);
    float* out = buffer.data() + args.dim;
    scale_by(out, x, inverse, weight, args.dim);
    store(out, args.out, row * args.stride_of_out(), args.dim, args.dtype);
  });
}

}  // namespace kvscope::kernels::cpu
