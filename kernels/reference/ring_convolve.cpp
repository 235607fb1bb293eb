#include "kernels/ring_convolve.h"

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void ring_convolve(const RingConvolveArgs& args) {
  const std::int64_t dim = args.dim, n = args.n_taps, p = *args.position;
  for (std::int64_t i = 0; i < dim; ++i) {
    store(args.ring, p % n * dim + i, args.dtype, load(args.row, i, args.dtype));
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t t = p - n + 1 + j;
      if (t >= 0) sum += args.taps[j * dim + i] * load(args.ring, t % n * dim + i, args.dtype);
    }
    store(args.out, i, args.dtype, sum);
  }
}

}  // namespace kvscope::kernels::reference
