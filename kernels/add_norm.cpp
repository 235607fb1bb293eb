#include "kernels/add_norm.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void add_norm(const AddNormArgs& args, Place place) {
  const ArgumentCheck check("add_norm");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 16384);
  check.range("n_rows", args.n_rows, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n_rows == 0) return;
  check.pointers({{"x", args.x}, {"weight", args.weight}, {"residual", args.residual}});
  KVSCOPE_RUN(add_norm, args, place);
}

}  // namespace kvscope::kernels
