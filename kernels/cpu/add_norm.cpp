#include "kernels/add_norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void add_norm(const AddNormArgs& args) {
  std::vector<float> weight(static_cast<std::size_t>(args.dim));
  copy_floats(args.weight, 0, args.dim, args.dtype, weight.data());
  if (args.weight_offset != 0) add(weight.data(), args.weight_offset, args.dim);
  parallel_for(args.n_rows, 4 * args.dim, [&](std::int64_t row) {
    thread_local std::vector<float> normed;  // an allocation would cost as much as the norm
    normed.resize(static_cast<std::size_t>(args.dim));
    const float* x = args.x + row * args.dim;
    const float inverse = 1 / std::sqrt(dot(x, x, args.dim) / static_cast<float>(args.dim) + args.eps);
    scale_by(normed.data(), x, inverse, weight.data(), args.dim);
    add_scaled(args.residual + row * args.dim, 1, normed.data(), args.dim);
  });
}

}  // namespace kvscope::kernels::cpu
