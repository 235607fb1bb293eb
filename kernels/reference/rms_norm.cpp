#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void rms_norm(const RmsNormArgs& args) {
  for (std::int64_t row = 0; row < args.n_rows; ++row) {
    double sum = 0;
    for (int i = 0; i < args.dim; ++i) {
      const double x = load(args.x, row * args.x_stride + i, args.dtype);
      sum += x * x;
    }
    const double inverse = 1 / std::sqrt(sum / args.dim + args.eps);
    for (int i = 0; i < args.dim; ++i) {
      const double x = load(args.x, row * args.x_stride + i, args.dtype);
      store(args.out, row * args.stride_of_out() + i, args.dtype,
            x * inverse * (args.weight_offset + load(args.weight, i, args.dtype)));
    }
  }
}

}  // namespace kvscope::kernels::reference
