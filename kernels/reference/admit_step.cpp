#include "kernels/admit_step.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/append.h"
#include "kernels/mlstm_step.h"
#include "kernels/reference/element.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/validate.h"

namespace kvscope::kernels::reference {
namespace {

/// Rows [n_heads, head_dim] from element `first` of qkv on: normed where there is a weight, rotated, rounded to dtype
/// into `out`.
void norm_and_rotate(const AdmitStepArgs& args, std::int64_t first, int n_heads, const void* weight, void* out) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t n = static_cast<std::int64_t>(n_heads) * cache.head_dim;
  std::vector<float> x(n), w(cache.head_dim);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(load(args.qkv, first + i, cache.dtype));
  if (weight) {
    for (int i = 0; i < cache.head_dim; ++i) w[i] = static_cast<float>(load(weight, i, cache.dtype));
    rms_norm({.x = x.data(),
              .weight = w.data(),
              .out = x.data(),
              .n_rows = n_heads,
              .x_stride = cache.head_dim,
              .dim = cache.head_dim,
              .eps = args.eps,
              .dtype = DType::f32});
  }
  rope({.x = x.data(),
        .positions = args.position,
        .inv_freq = args.inv_freq,
        .n_tokens = 1,
        .n_heads = n_heads,
        .head_dim = cache.head_dim,
        .attention_scaling = args.attention_scaling,
        .dtype = DType::f32});
  for (std::int64_t i = 0; i < n; ++i) store(out, i, cache.dtype, x[i]);
}

/// phi(y) = [softmax(y), softmax(-y)]
std::vector<float> hedgehog(const double* y, int half) {
  std::vector<float> out;
  for (const int sign : {1, -1}) {
    double sum = 0;
    for (int i = 0; i < half; ++i) sum += std::exp(sign * y[i]);
    for (int i = 0; i < half; ++i) out.push_back(static_cast<float>(std::exp(sign * y[i]) / sum));
  }
  return out;
}

/// Absorbs x = [k ; v] of one head and returns the score of token position - delay, NaN while there is none.
double score_head(const AdmitStepArgs& args, int head, const std::vector<double>& x) {
  const MlstmScorerView& s = args.scorer;
  const int dim = args.cache.head_dim, columns = 2 * dim + 3;
  std::vector<double> y(columns, 0.0);
  for (int i = 0; i < 2 * dim; ++i) {
    for (int j = 0; j < columns; ++j)
      y[j] += x[i] * s.project[(static_cast<std::int64_t>(head) * 2 * dim + i) * columns + j];
  }
  double* gate = y.data() + 2 * dim;
  for (int i = 0; i < 3; ++i) gate[i] += s.bias[head * 3 + i];
  for (int i = 0; i < 2 && s.soft_cap != 0; ++i) gate[i] = s.soft_cap * std::tanh(gate[i] / s.soft_cap);
  const auto log_i = static_cast<float>(gate[0]);
  const auto log_f = static_cast<float>(std::fmin(gate[1], 0.0) - std::log1p(std::exp(-std::abs(gate[1]))));
  const std::vector<float> q = hedgehog(y.data(), dim / 2), k = hedgehog(y.data() + dim / 2, dim / 2);
  const std::vector<float> v(y.begin() + dim, y.begin() + 2 * dim);

  const std::int64_t row = static_cast<std::int64_t>(head) * s.delay + *args.position % s.delay;
  const bool reads = *args.position >= s.delay;
  std::vector<float> h(dim);
  mlstm_step({.c = s.c + static_cast<std::int64_t>(head) * dim * dim,
              .z = s.z + static_cast<std::int64_t>(head) * dim,
              .m = s.m + head,
              .k = k.data(),
              .v = v.data(),
              .log_i = &log_i,
              .log_f = &log_f,
              .q = reads ? s.queries + row * dim : nullptr,
              .h = h.data(),
              .n_heads = 1,
              .d_key = dim,
              .d_value = dim});
  double score = reads ? s.direct[row] : std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < dim; ++i) {
    score += h[i] / (1 + std::exp(-static_cast<double>(h[i]))) * s.read[static_cast<std::int64_t>(head) * dim + i];
    s.queries[row * dim + i] = q[i];
  }
  s.direct[row] = static_cast<float>(gate[2]);
  return score;
}

}  // namespace

void admit_step(const AdmitStepArgs& args) {
  validate(args);
  const SlotCacheView& cache = args.cache;
  const int dim = cache.head_dim;
  const std::int64_t n = static_cast<std::int64_t>(cache.n_kv_heads) * dim,
                     k_first = static_cast<std::int64_t>(args.n_heads) * dim;
  std::vector<char> k(n * size_of(cache.dtype));
  const void* v = static_cast<const char*>(args.qkv) + (k_first + n) * size_of(cache.dtype);
  norm_and_rotate(args, 0, args.n_heads, args.q_norm, args.q);
  norm_and_rotate(args, k_first, cache.n_kv_heads, args.k_norm, k.data());

  std::vector<float> score(cache.n_kv_heads, 0.0f);
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    if (!args.scorer.project) {
      if (args.score) score[head] = args.score[head];
      continue;
    }
    std::vector<double> x;
    for (int i = 0; i < dim; ++i) x.push_back(load(k.data(), head * dim + i, cache.dtype));
    for (int i = 0; i < dim; ++i) x.push_back(load(v, head * dim + i, cache.dtype));
    score[head] = static_cast<float>(score_head(args, head, x));
    if (args.score) args.score[head] = score[head];
  }
  std::vector<std::int32_t> slot(cache.n_kv_heads);
  retain_step({.cache = cache,
               .rule = args.rule,
               .score = score.data(),
               .log_gamma = args.log_gamma,
               .threshold = args.threshold,
               .position = *args.position,
               .n_sink = args.n_sink,
               .window = args.window,
               .top_k = args.top_k,
               .decay_stride = args.decay_stride,
               .decision = args.decision,
               .slot = slot.data()});
  append({.cache = cache, .k = k.data(), .v = v, .slot = slot.data(), .position = *args.position});
}

}  // namespace kvscope::kernels::reference
