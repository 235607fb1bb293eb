#pragma once
// Attention as one would write it with whole matrices in the model's dtype: what fast kernels are measured against.

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/dtype.h"

namespace kvscope::test {

/// One query row over a list of keys, float arithmetic; logits, weights and result are rounded to `dtype` as separate
/// tensor operations would round them.
struct NaiveRow {
  std::vector<float> o;  // [head_dim]
  float lse;             // from unrounded float logits: lse is a float32 result whatever the dtype
};

/// A soft cap and a sink logit, as kernels/score_variant.h has them; 0 and -inf are none.
struct NaiveVariant {
  float soft_cap = 0, sink = -INFINITY;
};

/// q [head_dim]; key(i), value(i): row i of n_keys rows of head_dim floats.
NaiveRow naive_attention(const float* q, int n_keys, int head_dim, float scale, kernels::DType dtype,
                         const std::function<const float*(int)>& key, const std::function<const float*(int)>& value,
                         NaiveVariant variant = {});

}  // namespace kvscope::test
