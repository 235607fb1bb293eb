#include "kernels/add_norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void add_norm(const AddNormArgs& args) {
  std::vector<float> buffer(static_cast<std::size_t>(args.dim));
  const float* weight = norm_factors(args.weight, args.dim, args.dtype, args.weight_offset, buffer.data());
  parallel_for(args.n_rows, 4 * args.dim, [&](std::int64_t row) {
    thread_local std::vector<float> normed;  // an allocation would cost as much as the norm
    normed.resize(static_cast<std::size_t>(args.dim));
    const float* x = args.x + row * args.dim;
    const float inverse = 1 / std::sqrt(dot(x, x, args.dim) / static_cast<float>(args.dim) + args.eps);
    scale_by(normed.data(), x, inverse, weight, args.dim);
    add_scaled(args.residual + row * args.dim, 1, normed.data(), args.dim);
  });
}

}  // namespace kvscope::kernels::cpu
