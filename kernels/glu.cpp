#include "kernels/glu.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void glu(const GluArgs& args, Place place) {
  const ArgumentCheck check("glu");
  check.dtype(args.dtype);
  check.range("activation", static_cast<int>(args.activation), 0, static_cast<int>(GluActivation::clamped));
  check.range("dim", args.dim, 1, 1 << 20);
  check.range("n_rows", args.n_rows, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n_rows == 0) return;
  check.pointers({{"gate_up", args.gate_up}, {"out", args.out}});
  KVSCOPE_RUN(glu, args, place);
}

}  // namespace kvscope::kernels
