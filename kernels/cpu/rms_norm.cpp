#include "kernels/rms_norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void rms_norm(const RmsNormArgs& args) {
  std::vector<float> weight(args.dim);
  copy_floats(args.weight, 0, args.dim, args.dtype, weight.data());
  if (args.weight_offset != 0) add(weight.data(), args.weight_offset, args.dim);
  parallel_for(args.n_rows, 4 * args.dim, [&](std::int64_t row) {
    // One buffer a thread: this runs once a row, and an allocation would cost as much as the norm.
    thread_local std::vector<float> buffer;
    buffer.resize(2 * static_cast<std::size_t>(args.dim));
    const float* x = as_floats(args.x, row * args.x_stride, args.dim, args.dtype, buffer.data());
    const float inverse = 1 / std::sqrt(dot(x, x, args.dim) / static_cast<float>(args.dim) + args.eps);
    float* out = buffer.data() + args.dim;
    scale_by(out, x, inverse, weight.data(), args.dim);
    store(out, args.out, row * args.dim, args.dim, args.dtype);
  });
}

}  // namespace kvscope::kernels::cpu
