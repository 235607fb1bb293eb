// The mLSTM scorer of one KV head: features of the new token, memory, score of the token that leaves the window.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/heads.h"
#include "kernels/cpu/vector.h"

namespace kvscope::kernels::cpu {
namespace {

struct Features {
  float q[kMaxHeadDim], k[kMaxHeadDim], v[kMaxHeadDim];  // q~, k~, v~
  float log_i, log_f;
  float direct;  // x . out[D:] + b
};

/// out = softmax(sign y) of n numbers.
void softmax(const float* y, float sign, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = sign * y[i];
  const float sum = exp_and_sum(out, maximum(out, n), n);
  scale(out, 1 / sum, n);
}

/// phi(y) = [softmax(y), softmax(-y)] of dim / 2 numbers, or softmax(y) of dim.
void feature_map(const float* y, int dim, bool is_softmax, float* out) {
  if (is_softmax) return softmax(y, 1, dim, out);
  softmax(y, 1, dim / 2, out);
  softmax(y, -1, dim / 2, out + dim / 2);
}

float cap(float gate, float soft_cap) { return soft_cap == 0 ? gate : std::tanh(gate / soft_cap) * soft_cap; }

float log_sigmoid(float x) { return std::min(x, 0.0f) - std::log1p(std::exp(-std::abs(x))); }

void compute_features(const MlstmScorerView& scorer, int head, int dim, const float* x, Features& features) {
  const int n_inputs = 2 * dim, map = scorer.softmax_map ? dim : dim / 2, stride = 2 * map + dim + 3;
  const float* weight = scorer.project + static_cast<std::int64_t>(head) * n_inputs * stride;
  const float* bias = scorer.bias + head * 3;
  float y[3 * kMaxHeadDim + 3] = {};
  for (int i = 0; i < n_inputs; ++i) add_scaled(y, x[i], weight + i * stride, stride);
  feature_map(y, dim, scorer.softmax_map, features.q);
  feature_map(y + map, dim, scorer.softmax_map, features.k);
  std::copy_n(y + 2 * map, dim, features.v);
  const float* gate = y + 2 * map + dim;
  features.log_i = cap(gate[0] + bias[0], scorer.soft_cap);
  features.log_f = log_sigmoid(cap(gate[1] + bias[1], scorer.soft_cap));
  features.direct = gate[2] + bias[2];
}

/// SiLU(h) . out[:D], h through its LayerNorm first where there is one.
float read_out(const MlstmScorerView& scorer, int head, float* h, int dim) {
  const std::int64_t first = static_cast<std::int64_t>(head) * dim;
  float ones[kMaxHeadDim];
  std::fill_n(ones, dim, 1.0f);
  if (scorer.norm) {
    const auto n = static_cast<float>(dim);
    add_scaled(h, -dot(h, ones, dim) / n, ones, dim);  // less the mean
    scale_by(h, h, 1 / std::sqrt(dot(h, h, dim) / n + scorer.norm_eps), scorer.norm + first, dim);
  }
  swiglu(h, ones, dim);
  return dot(h, scorer.read + first, dim);
}

}  // namespace

float score_head(const MlstmScorerView& scorer, int head, int head_dim, std::int32_t position, const float* x) {
  const std::int64_t dim = head_dim;
  Features features = {};
  compute_features(scorer, head, head_dim, x, features);
  const bool waits = scorer.delay > 0, reads = position >= scorer.delay;
  const std::int64_t row = waits ? static_cast<std::int64_t>(head) * scorer.delay + position % scorer.delay : 0;
  float* query = waits ? scorer.queries + row * dim : features.q;
  float* direct = waits ? scorer.direct + row : &features.direct;
  float h[kMaxHeadDim];
  mlstm_head({.c = scorer.c + head * dim * dim,
              .z = scorer.z + head * dim,
              .m = scorer.m + head,
              .k = features.k,
              .v = features.v,
              .log_i = &features.log_i,
              .log_f = &features.log_f,
              .q = reads ? query : nullptr,
              .h = h,
              .n_heads = 1,
              .d_key = head_dim,
              .d_value = head_dim,
              .guarded = scorer.guarded},
             0);
  const float score = reads ? read_out(scorer, head, h, head_dim) + *direct : std::numeric_limits<float>::quiet_NaN();
  if (!waits) return score;
  std::copy_n(features.q, dim, query);
  *direct = features.direct;
  return score;
}

}  // namespace kvscope::kernels::cpu
