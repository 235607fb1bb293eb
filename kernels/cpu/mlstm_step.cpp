#include "kernels/mlstm_step.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

void step_head(const MlstmStepArgs& args, std::int64_t head) {
  const int n = args.d_key;
  const int width = args.d_value;
  float* c = args.c + head * n * width;
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
  scale(c, keep, static_cast<std::int64_t>(n) * width);
  for (int i = 0; i < n; ++i) add_scaled(c + i * width, admit * k[i], v, width);

  if (!args.q) return;
  const float* q = args.q + head * n;
  float* h = args.h + head * width;
  std::fill_n(h, width, 0.0f);
  for (int i = 0; i < n; ++i) add_scaled(h, q[i], c + i * width, width);
  scale(h, 1 / std::max(dot(q, z, n), 1e-6f), width);
}

}  // namespace

void mlstm_step(const MlstmStepArgs& args) {
  validate(args);
  const std::int64_t cost = 6L * args.d_key * args.d_value;
  parallel_for(args.n_heads, cost, [&](std::int64_t head) { step_head(args, head); });
}

}  // namespace kvscope::kernels::cpu
