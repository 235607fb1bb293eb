#include "kernels/round_floats.h"

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void round_floats(const RoundFloatsArgs& args) {
  for (std::int64_t i = 0; i < args.n; ++i) store(args.out, i, args.dtype, args.x[i]);
}

}  // namespace kvscope::kernels::reference
