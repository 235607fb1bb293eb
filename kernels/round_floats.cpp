#include "kernels/round_floats.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void round_floats(const RoundFloatsArgs& args, Place place) {
  const ArgumentCheck check("round_floats");
  check.dtype(args.dtype);
  check.range("n", args.n, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n == 0) return;
  check.pointers({{"x", args.x}, {"out", args.out}});
  KVSCOPE_RUN(round_floats, args, place);
}

}  // namespace kvscope::kernels
