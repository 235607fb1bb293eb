#include "kernels/glu.h"

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void glu(const GluArgs& args) {
  for (std::int64_t row = 0; row < args.n_rows; ++row) {
    for (int i = 0; i < args.dim; ++i) {
      const double x = load(args.gate_up, row * 2 * args.dim + i, args.dtype);
      const double up = load(args.gate_up, row * 2 * args.dim + args.dim + i, args.dtype);
      store(args.out, row * args.dim + i, args.dtype, gated(args.activation, x, up));
    }
  }
}

}  // namespace kvscope::kernels::reference
