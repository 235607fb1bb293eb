#include "kernels/admit_step.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/heads.h"
#include "kernels/cpu/norm_rotate.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"
#include "kernels/rule/score_ring.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {
namespace {

/// Query head `q`, normed and rotated, into args.q. Channel `zero` of it is 0 before and after (-1: none).
void admit_query(const AdmitStepArgs& args, const Rotation& rotation, int q, int zero) {
  const int dim = args.cache.head_dim;
  const std::int64_t at = static_cast<std::int64_t>(q) * dim;
  float buffer[kMaxHeadDim], x[kMaxHeadDim];
  const float* row = normed(args.qkv, at, args.q_norm, args.eps, args.norm_offset, dim, args.cache.dtype, buffer);
  if (zero >= 0) {
    if (row != buffer) std::copy_n(row, dim, buffer);
    buffer[zero] = 0;
    row = buffer;
  }
  rotate(row, rotation, dim, x);
  if (zero >= 0) x[zero] = 0;
  store(x, args.q, at, dim, args.cache.dtype);
}

/// The score of the newcomer, given that of this step's token.
float newcomer_score(const AdmitStepArgs& args, int head, float score) {
  if (!args.score_ring) return score;
  float* ring = args.score_ring + static_cast<std::int64_t>(head) * (args.policy.window + 1);
  return through_ring(ring, args.policy.window, args.score_delay, *args.position, score);
}

void admit_head(const AdmitStepArgs& args, const Rotation& rotation, int head) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t dim = cache.head_dim;
  const int group = args.n_heads / cache.n_kv_heads;
  for (int i = 0; i < group; ++i) {
    admit_query(args, rotation, head * group + i, i == 0 ? args.zero_channel : -1);
  }
  const std::int64_t k_index = (args.n_heads + head) * dim, v_index = k_index + cache.n_kv_heads * dim;
  float x[2 * kMaxHeadDim], buffer[kMaxHeadDim];  // x: k, v
  rotate(normed(args.qkv, k_index, args.k_norm, args.eps, args.norm_offset, cache.head_dim, cache.dtype, buffer),
         rotation, cache.head_dim, x);
  round_to(x, cache.head_dim, cache.dtype);

  float score = args.score ? args.score[head] : 0.0f;
  if (args.scorer.project) {
    copy_floats(args.qkv, v_index, dim, cache.dtype, x + dim);
    score = score_head(args.scorer, head, cache.head_dim, *args.position, x);
    if (args.score) args.score[head] = score;
  }
  const RetainDecision decision =
      retain_head(cache, args.policy, head, *args.position, newcomer_score(args, head, score));
  args.decision[head] = decision;

  const std::int64_t offset = slot_offset(cache, head, decision.slot);
  const std::size_t element = size_of(cache.dtype);
  store(x, cache.k_pool, offset, dim, cache.dtype);
  std::memcpy(static_cast<char*>(cache.v_pool) + offset * element,
              static_cast<const char*>(args.qkv) + v_index * element, dim * element);
  cache.slot_position[slot_row(cache, head) + decision.slot] = *args.position;
}

}  // namespace

void admit_step(const AdmitStepArgs& args) {
  const SlotCacheView& cache = args.cache;
  const Rotation rotation = rotation_at(*args.position, args.inv_freq, cache.head_dim, args.attention_scaling);
  const std::int64_t dim = cache.head_dim;
  std::int64_t cost = 8 * dim * (args.n_heads / cache.n_kv_heads + 2);
  if (args.scorer.project) cost += 16 * dim * dim;
  if (args.policy.rule != RetainRule::keep_all) cost += 4L * cache.n_slots[0];
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { admit_head(args, rotation, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
