#include "kernels/rope.h"

#include "kernels/cpu/norm_rotate.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void rope(const RopeArgs& args) {
  const int half = args.head_dim / 2;
  const std::int64_t cost = 40L * half + 6L * half * args.n_heads;
  parallel_for(args.n_tokens, cost, [&](std::int64_t token) {
    const Rotation rotation = rotation_at(args.positions[token], args.inv_freq, args.head_dim, args.attention_scaling);
    for (int head = 0; head < args.n_heads; ++head) {
      const std::int64_t row = (token * args.n_heads + head) * args.head_dim;
      float buffer[kMaxHeadDim], x[kMaxHeadDim];
      rotate(as_floats(args.x, row, args.head_dim, args.dtype, buffer), rotation, args.head_dim, x);
      store(x, args.x, row, args.head_dim, args.dtype);
    }
  });
}

}  // namespace kvscope::kernels::cpu
