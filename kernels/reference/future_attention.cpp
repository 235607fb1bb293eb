#include "kernels/future_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void future_attention(const FutureAttentionArgs& args) {
  const int group_size = args.n_heads / args.n_kv_heads;
  const int head_dim = args.head_dim;
  for (int head = 0; head < args.n_heads; ++head) {
    for (std::int64_t t = 0; t < args.kv_len; ++t) {
      const std::int64_t at_k = (t * args.n_kv_heads + head / group_size) * head_dim;
      double sum = 0, square = 0, most = 0;
      for (std::int64_t row = 0; row < args.q_len; ++row) {
        const std::int64_t q = args.q_start + row;
        if (q < t + args.window) continue;
        if (args.look_ahead > 0 && q > t + args.window + args.look_ahead) continue;
        const std::int64_t at_q = (row * args.n_heads + head) * head_dim;
        double logit = 0;
        for (int i = 0; i < head_dim; ++i) {
          logit += load(args.q, at_q + i, args.dtype) * load(args.k, at_k + i, args.dtype);
        }
        const double p = std::exp(score(logit, args.scale, args.soft_cap) - args.lse[head * args.q_len + row]);
        sum += p;
        square += p * p;
        most = std::max(most, p);
      }
      float& mass = args.mass[head * args.mass_stride + t];
      mass = static_cast<float>(mass + sum);
      if (args.square == nullptr) continue;
      args.square[head * args.mass_stride + t] += static_cast<float>(square);
      args.most[head * args.mass_stride + t] =
          std::max(args.most[head * args.mass_stride + t], static_cast<float>(most));
    }
  }
}

}  // namespace kvscope::kernels::reference
