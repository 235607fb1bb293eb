#include "kernels/rope.h"

#include <cmath>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kMaxHalf = 128;

void rotate(float* x, const float* cosine, const float* sine, int half) {
  for (int i = 0; i < half; ++i) {
    const float low = x[i];
    const float high = x[i + half];
    x[i] = low * cosine[i] - high * sine[i];
    x[i + half] = high * cosine[i] + low * sine[i];
  }
}

}  // namespace

void rope(const RopeArgs& args) {
  const int half = args.head_dim / 2;
  const std::int64_t cost = 40L * half + 6L * half * args.n_heads;
  parallel_for(args.n_tokens, cost, [&](std::int64_t token) {
    float cosine[kMaxHalf];
    float sine[kMaxHalf];
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(args.positions[token]) * args.inv_freq[i];
      cosine[i] = std::cos(angle) * args.attention_scaling;
      sine[i] = std::sin(angle) * args.attention_scaling;
    }
    for (int head = 0; head < args.n_heads; ++head) {
      const std::int64_t row = (token * args.n_heads + head) * args.head_dim;
      if (args.dtype == DType::f32) {
        rotate(static_cast<float*>(args.x) + row, cosine, sine, half);
      } else {
        float x[2 * kMaxHalf];
        widen(static_cast<const BFloat16*>(args.x) + row, x, args.head_dim);
        rotate(x, cosine, sine, half);
        store(x, args.x, row, args.head_dim, args.dtype);
      }
    }
  });
}

}  // namespace kvscope::kernels::cpu
