#include "kernels/reference/score_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/mlstm_step.h"

namespace kvscope::kernels::reference {
namespace {

/// phi(y) = [softmax(y), softmax(-y)], or softmax(y) alone; `width` numbers y.
std::vector<float> feature_map(const double* y, int width, bool softmax) {
  std::vector<float> out;
  for (const int sign : {1, -1}) {
    if (softmax && sign == -1) break;
    double sum = 0;
    for (int i = 0; i < width; ++i) sum += std::exp(sign * y[i]);
    for (int i = 0; i < width; ++i) out.push_back(static_cast<float>(std::exp(sign * y[i]) / sum));
  }
  return out;
}

/// LayerNorm without a bias.
void normalise(std::vector<float>& h, const float* weight, double eps) {
  const auto n = static_cast<double>(h.size());
  double mean = 0, variance = 0;
  for (const float x : h) mean += x / n;
  for (const float x : h) variance += (x - mean) * (x - mean) / n;
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] = static_cast<float>((h[i] - mean) / std::sqrt(variance + eps) * weight[i]);
}

}  // namespace

double score_head(const MlstmScorerView& s, int head, int dim, std::int64_t position, const std::vector<double>& x) {
  const int map = s.softmax_map ? dim : dim / 2, values = 2 * map, columns = values + dim + 3;
  std::vector<double> y(columns, 0.0);
  for (int i = 0; i < 2 * dim; ++i) {
    for (int j = 0; j < columns; ++j)
      y[j] += x[i] * s.project[(static_cast<std::int64_t>(head) * 2 * dim + i) * columns + j];
  }
  double* gate = y.data() + values + dim;
  for (int i = 0; i < 3; ++i) gate[i] += s.bias[head * 3 + i];
  for (int i = 0; i < 2 && s.soft_cap != 0; ++i) gate[i] = s.soft_cap * std::tanh(gate[i] / s.soft_cap);
  const auto log_i = static_cast<float>(gate[0]);
  const auto log_f = static_cast<float>(std::fmin(gate[1], 0.0) - std::log1p(std::exp(-std::abs(gate[1]))));
  const std::vector<float> q = feature_map(y.data(), map, s.softmax_map),
                           k = feature_map(y.data() + map, map, s.softmax_map);
  const std::vector<float> v(y.begin() + values, y.begin() + values + dim);

  // With a delay of 0 the token itself is read.
  const std::int64_t row = s.delay > 0 ? static_cast<std::int64_t>(head) * s.delay + position % s.delay : 0;
  const bool reads = position >= s.delay;
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
  if (s.norm) normalise(h, s.norm + static_cast<std::int64_t>(head) * dim, s.norm_eps);
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

}  // namespace kvscope::kernels::reference
