#include "kernels/rms_norm.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void rms_norm(const RmsNormArgs& args, Place place) {
  const ArgumentCheck check("rms_norm");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 16384);
  check.range("n_rows", args.n_rows, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n_rows == 0) return;
  check.range("x_stride", args.x_stride, args.dim, std::numeric_limits<std::int64_t>::max());
  if (args.out_stride != 0)
    check.range("out_stride", args.out_stride, args.dim, std::numeric_limits<std::int64_t>::max());
  check.pointers({{"x", args.x}, {"weight", args.weight}, {"out", args.out}});
  KVSCOPE_RUN(rms_norm, args, place);
}

}  // namespace kvscope::kernels
