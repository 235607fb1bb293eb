#include "kernels/mlstm_step.h"

#include <cmath>

namespace kvscope::kernels::reference {
namespace {

void step_head(const MlstmStepArgs& args, int head) {
  const int n = args.d_key;
  const int width = args.d_value;
  float* c = args.c + static_cast<std::int64_t>(head) * n * width;
  float* z = args.z + static_cast<std::int64_t>(head) * n;
  const float* k = args.k + static_cast<std::int64_t>(head) * n;
  const float* v = args.v + static_cast<std::int64_t>(head) * width;

  const double before = args.m[head];
  const double m = std::fmax(args.log_f[head] + before, static_cast<double>(args.log_i[head]));
  // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
  const bool empty = m == -INFINITY;
  const double keep = empty ? 1 : std::exp(args.log_f[head] + before - m);
  const double admit = empty ? 0 : std::exp(args.log_i[head] - m);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < width; ++j) {
      c[i * width + j] = static_cast<float>(keep * c[i * width + j] + admit * k[i] * v[j]);
    }
    z[i] = static_cast<float>(keep * z[i] + admit * k[i]);
  }
  args.m[head] = static_cast<float>(m);

  if (!args.q) return;
  const float* q = args.q + static_cast<std::int64_t>(head) * n;
  double norm = 0;
  for (int i = 0; i < n; ++i) norm += static_cast<double>(q[i]) * z[i];
  const double denominator =
      args.guarded ? std::fmax(std::fmax(std::abs(norm), std::exp(-m)), 1e-30) : std::fmax(norm, 1e-6);
  for (int j = 0; j < width; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += static_cast<double>(q[i]) * c[i * width + j];
    args.h[static_cast<std::int64_t>(head) * width + j] = static_cast<float>(sum / denominator);
  }
}

}  // namespace

void mlstm_step(const MlstmStepArgs& args) {
  for (int head = 0; head < args.n_heads; ++head) step_head(args, head);
}

}  // namespace kvscope::kernels::reference
