#include "kernels/mlstm_step.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/heads.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void mlstm_head(const MlstmStepArgs& args, int head) {
  const int n = args.d_key;
  const int width = args.d_value;
  float* c = args.c + static_cast<std::int64_t>(head) * n * width;
  float* z = args.z + head * n;
  const float* k = args.k + head * n;
  const float* v = args.v + head * width;

  const float carried = args.log_f[head] + args.m[head];
  const float m = std::max(carried, args.log_i[head]);
  // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
  const bool empty = m == -INFINITY;
  const float keep = empty ? 1 : std::exp(carried - m);
  const float admit = empty ? 0 : std::exp(args.log_i[head] - m);
  args.m[head] = m;
  scale(z, keep, n);
  add_scaled(z, admit, k, n);
  if (!args.q) {
    scale(c, keep, static_cast<std::int64_t>(n) * width);
    for (int i = 0; i < n; ++i) add_scaled(c + i * width, admit * k[i], v, width);
    return;
  }
  const float* q = args.q + head * n;
  float* h = args.h + head * width;
  std::fill_n(h, width, 0.0f);
  for (int i = 0; i < n; ++i) update_and_read(c + i * width, keep, admit * k[i], v, q[i], h, width);
  const float norm = dot(q, z, n);
  scale(h, 1 / (args.guarded ? std::max({std::abs(norm), std::exp(-m), 1e-30f}) : std::max(norm, 1e-6f)), width);
}

void mlstm_step(const MlstmStepArgs& args) {
  const std::int64_t cost = 6L * args.d_key * args.d_value;
  parallel_for(args.n_heads, cost, [&](std::int64_t head) { mlstm_head(args, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
