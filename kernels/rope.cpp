#include "kernels/rope.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void rope(const RopeArgs& args, Place place) {
  const ArgumentCheck check("rope");
  check.dtype(args.dtype);
  check.range("head_dim", args.head_dim, 2, 256);
  check.even("head_dim", args.head_dim);
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointers({{"x", args.x}, {"positions", args.positions}, {"inv_freq", args.inv_freq}});
  KVSCOPE_RUN(rope, args, place);
}

}  // namespace kvscope::kernels
