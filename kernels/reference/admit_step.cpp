#include "kernels/admit_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/append.h"
#include "kernels/reference/norm_rotate.h"
#include "kernels/reference/score_head.h"
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
  std::vector<float> q =
      normed_rows(args.qkv, 0, args.n_heads, cache.head_dim, args.q_norm, args.eps, args.norm_offset, cache.dtype);
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

}  // namespace

void admit_step(const AdmitStepArgs& args) {
  const SlotCacheView& cache = args.cache;
  const int dim = cache.head_dim;
  const std::int64_t n = static_cast<std::int64_t>(cache.n_kv_heads) * dim,
                     k_first = static_cast<std::int64_t>(args.n_heads) * dim;
  std::vector<char> k(n * size_of(cache.dtype));
  const void* v = static_cast<const char*>(args.qkv) + (k_first + n) * size_of(cache.dtype);
  admit_queries(args);
  std::vector<float> keys =
      normed_rows(args.qkv, k_first, cache.n_kv_heads, dim, args.k_norm, args.eps, args.norm_offset, cache.dtype);
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
    score[head] = static_cast<float>(score_head(args.scorer, head, dim, *args.position, x));
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
