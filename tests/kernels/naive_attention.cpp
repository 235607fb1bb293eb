#include "tests/kernels/naive_attention.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/numbers.h"

namespace kvscope::test {

NaiveRow naive_attention(const float* q, int n_keys, int head_dim, float scale, kernels::DType dtype,
                         const std::function<const float*(int)>& key, const std::function<const float*(int)>& value,
                         NaiveVariant variant) {
  NaiveRow row = {std::vector<float>(head_dim, 0.0f), variant.sink};
  if (n_keys == 0) return row;
  const auto score = [&](float x) {
    return variant.soft_cap > 0 ? variant.soft_cap * std::tanh(x / variant.soft_cap) : x;
  };
  std::vector<float> exact(n_keys), logits(n_keys), weights(n_keys);
  for (int i = 0; i < n_keys; ++i) {
    float sum = 0;
    for (int d = 0; d < head_dim; ++d) sum += q[d] * key(i)[d];
    exact[i] = score(scale * sum);
    logits[i] = rounded(score(rounded(rounded(sum, dtype) * scale, dtype)), dtype);
  }
  const auto log_sum = [&](const std::vector<float>& x) {
    const float m = std::max(variant.sink, *std::max_element(x.begin(), x.end()));
    float sum = std::exp(variant.sink - m);
    for (const float value : x) sum += std::exp(value - m);
    return m + std::log(sum);
  };
  row.lse = log_sum(exact);
  const float lse = log_sum(logits);
  for (int i = 0; i < n_keys; ++i) weights[i] = rounded(std::exp(logits[i] - lse), dtype);
  for (int d = 0; d < head_dim; ++d) {
    for (int i = 0; i < n_keys; ++i) row.o[d] += weights[i] * value(i)[d];
    row.o[d] = rounded(row.o[d], dtype);
  }
  return row;
}

}  // namespace kvscope::test
