#include "kernels/rope.h"

#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void rope(const RopeArgs& args) {
  const int half = args.head_dim / 2;
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    for (int head = 0; head < args.n_heads; ++head) {
      const std::int64_t row = (token * args.n_heads + head) * args.head_dim;
      for (int i = 0; i < half; ++i) {
        if (args.inv_freq[i] == 0) continue;
        // float32 on purpose: at position 100000 the rounding of the product is part of what a model was trained with.
        const float angle = static_cast<float>(args.positions[token]) * args.inv_freq[i];
        const double cosine = std::cos(static_cast<double>(angle)) * args.attention_scaling;
        const double sine = std::sin(static_cast<double>(angle)) * args.attention_scaling;
        const double low = load(args.x, row + i, args.dtype);
        const double high = load(args.x, row + i + half, args.dtype);
        store(args.x, row + i, args.dtype, low * cosine - high * sine);
        store(args.x, row + i + half, args.dtype, high * cosine + low * sine);
      }
    }
  }
}

}  // namespace kvscope::kernels::reference
