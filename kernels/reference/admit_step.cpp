#include "kernels/admit_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/append.h"
#include "kernels/mlstm_step.h"
#include "kernels/reference/norm_rotate.h"
#include "kernels/retain_step.h"
#include "kernels/rule/score_ring.h"

namespace kvscope::kernels::reference {
namespace {

void store_rows(const std::vector<float>& x, void* out, DType dtype) {
  for (std::size_t i = 0; i < x.size(); ++i) store(out, static_cast<std::int64_t>(i), dtype, x[i]);
}

/// Rotated queries into args.q.
void admit_queries(const AdmitStepArgs& args) {
  const SlotCacheView& cache = args.cache;
  std::vector<float> q = normed_rows(args.qkv, 0, args.n_heads, cache.head_dim, args.q_norm, args.eps, cache.dtype);
  const auto clear_channels = [&] {
    if (args.zero_channel < 0) return;
    const int group = args.n_heads / cache.n_kv_heads;
    for (int head = 0; head < args.n_heads; head += group) q[head * cache.head_dim + args.zero_channel] = 0;
  };
  clear_channels();
  rotate_rows(q, args.position, args.inv_freq, cache.head_dim, args.attention_scaling);
  clear_channels();
  store_rows(q, args.q, cache.dtype);
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

  // With a delay of 0 the token itself is read.
  const std::int64_t row = s.delay > 0 ? static_cast<std::int64_t>(head) * s.delay + *args.position % s.delay : 0;
  const bool reads = *args.position >= s.delay;
  const float* query = s.delay > 0 ? s.queries + row * dim : q.data();
  std::vector<float> h(dim);
  mlstm_step({.c = s.c + static_cast<std::int64_t>(head) * dim * dim,
              .z = s.z + static_cast<std::int64_t>(head) * dim,
              .m = s.m + head,
              .k = k.data(),
              .v = v.data(),
              .log_i = &log_i,
              .log_f = &log_f,
              .q = reads ? query : nullptr,
              .h = h.data(),
              .n_heads = 1,
              .d_key = dim,
              .d_value = dim,
              .guarded = s.guarded});
  double score = std::numeric_limits<double>::quiet_NaN();
  if (reads) score = s.delay > 0 ? s.direct[row] : static_cast<float>(gate[2]);
  for (int i = 0; i < dim; ++i) {
    score += h[i] / (1 + std::exp(-static_cast<double>(h[i]))) * s.read[static_cast<std::int64_t>(head) * dim + i];
  }
  if (s.delay == 0) return score;
  std::copy(q.begin(), q.end(), s.queries + row * dim);
  s.direct[row] = static_cast<float>(gate[2]);
  return score;
}

}  // namespace

void admit_step(const AdmitStepArgs& args) {
  const SlotCacheView& cache = args.cache;
  const int dim = cache.head_dim;
  const std::int64_t n = static_cast<std::int64_t>(cache.n_kv_heads) * dim,
                     k_first = static_cast<std::int64_t>(args.n_heads) * dim;
  std::vector<char> k(n * size_of(cache.dtype));
  const void* v = static_cast<const char*>(args.qkv) + (k_first + n) * size_of(cache.dtype);
  admit_queries(args);
  std::vector<float> keys = normed_rows(args.qkv, k_first, cache.n_kv_heads, dim, args.k_norm, args.eps, cache.dtype);
  rotate_rows(keys, args.position, args.inv_freq, dim, args.attention_scaling);
  store_rows(keys, k.data(), cache.dtype);

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
  for (int head = 0; args.score_ring && head < cache.n_kv_heads; ++head) {
    float* ring = args.score_ring + static_cast<std::int64_t>(head) * (args.policy.window + 1);
    score[head] = through_ring(ring, args.policy.window, args.score_delay, *args.position, score[head]);
  }
  std::vector<std::int32_t> slot(cache.n_kv_heads);
  retain_step({.cache = cache,
               .policy = args.policy,
               .score = score.data(),
               .position = *args.position,
               .decision = args.decision,
               .slot = slot.data()});
  append({.cache = cache, .k = k.data(), .v = v, .slot = slot.data(), .position = args.position, .n_tokens = 1});
}

}  // namespace kvscope::kernels::reference
