#pragma once

namespace kvscope::kernels {

/// What attention does to q . k beside a plain softmax, the same in every operation that computes scores:
///
///     s_t = scale q . k_t                      soft_cap = 0
///     s_t = c tanh(scale q . k_t / c)          soft_cap = c > 0: |s_t| < c (Gemma 2)
///
///     p_t = exp(s_t) / Z      Z = sum_u exp(s_u) + exp(sink_h)      lse = log Z
///
/// The last term is there if `sink` is given: a logit of each query head that no scale and no cap changes (gpt-oss). It
/// takes weight from the keys and has no value. lse includes it, so that exp(s_t - lse) is the weight of a key with and
/// without a sink, and what is given an lse needs the soft cap alone. A sink of -inf is none; one of s is a key of score
/// s whose value is 0. A query that sees no key has o = 0 and lse = sink_h; without a sink lse = -inf.
///
/// Every version decides once a call or a tile which of it there is (CUDA: cuda/score_variant.cuh), so that plain
/// attention costs what it costs alone.
struct ScoreVariant {
  float soft_cap = 0;           // finite, >= 0
  const float* sink = nullptr;  // [n_heads], or null
};

}  // namespace kvscope::kernels
