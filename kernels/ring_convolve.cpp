#include "kernels/ring_convolve.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void ring_convolve(const RingConvolveArgs& args, Place place) {
  const ArgumentCheck check("ring_convolve");
  check.dtype(args.dtype);
  check.range("n_taps", args.n_taps, 1, kMaxTaps);
  check.range("dim", args.dim, 1, 1 << 20);
  check.pointers(
      {{"row", args.row}, {"ring", args.ring}, {"taps", args.taps}, {"out", args.out}, {"position", args.position}});
  KVSCOPE_RUN(ring_convolve, args, place);
}

}  // namespace kvscope::kernels
