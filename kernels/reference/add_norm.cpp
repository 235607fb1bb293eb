#include "kernels/add_norm.h"

#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void add_norm(const AddNormArgs& args) {
  for (std::int64_t row = 0; row < args.n_rows; ++row) {
    const float* x = args.x + row * args.dim;
    float* residual = args.residual + row * args.dim;
    double sum = 0;
    for (int i = 0; i < args.dim; ++i) sum += static_cast<double>(x[i]) * x[i];
    const double inverse = 1 / std::sqrt(sum / args.dim + args.eps);
    for (int i = 0; i < args.dim; ++i) {
      const double normed = x[i] * inverse * (args.weight_offset + load(args.weight, i, args.dtype));
      residual[i] = static_cast<float>(residual[i] + normed);
    }
  }
}

}  // namespace kvscope::kernels::reference
