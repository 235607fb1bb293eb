#include "kernels/admit_step.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/heads.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/slots.h"
#include "kernels/cpu/vector.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kMaxDim = 256;  // of a head

struct Rotation {
  float cosine[kMaxDim / 2];
  float sine[kMaxDim / 2];
};

Rotation rotation_at(const AdmitStepArgs& args) {
  Rotation rotation;
  for (int i = 0; i < args.cache.head_dim / 2; ++i) {
    const float angle = static_cast<float>(*args.position) * args.inv_freq[i];
    rotation.cosine[i] = std::cos(angle) * args.attention_scaling;
    rotation.sine[i] = std::sin(angle) * args.attention_scaling;
  }
  return rotation;
}

/// Elements [index, index + head_dim) of qkv: normed where there is a `weight`, rotated, rounded, written to element
/// `to` of `out` (null: nowhere) and left in x as they were rounded.
void norm_and_rotate(const AdmitStepArgs& args, const Rotation& rotation, std::int64_t index, const void* weight,
                     float* x, void* out, std::int64_t to) {
  const int dim = args.cache.head_dim, half = dim / 2;
  const DType dtype = args.cache.dtype;
  float row_buffer[kMaxDim], weight_buffer[kMaxDim];
  const float* row = as_floats(args.qkv, index, dim, dtype, row_buffer);
  if (weight) {
    const float inverse = 1 / std::sqrt(dot(row, row, dim) / static_cast<float>(dim) + args.eps);
    scale_by(row_buffer, row, inverse, as_floats(weight, 0, dim, dtype, weight_buffer), dim);
    row = row_buffer;
  }
  for (int i = 0; i < half; ++i) {
    const float low = row[i], high = row[i + half];
    x[i] = low * rotation.cosine[i] - high * rotation.sine[i];
    x[i + half] = high * rotation.cosine[i] + low * rotation.sine[i];
  }
  if (out) store(x, out, to, dim, dtype);
  if (dtype == DType::bf16) {
    BFloat16 rounded[kMaxDim];
    narrow(x, rounded, dim);
    widen(rounded, x, dim);
  }
}

RetainStepArgs contest(const AdmitStepArgs& args) {
  return {.cache = args.cache,
          .rule = args.rule,
          .score = nullptr,
          .log_gamma = args.log_gamma,
          .threshold = args.threshold,
          .position = *args.position,
          .n_sink = args.n_sink,
          .window = args.window,
          .top_k = args.top_k,
          .decay_stride = args.decay_stride,
          .decision = args.decision,
          .slot = nullptr};
}

void admit_head(const AdmitStepArgs& args, const Rotation& rotation, int head) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t dim = cache.head_dim;
  const int group = args.n_heads / cache.n_kv_heads;
  float x[2 * kMaxDim];  // a query; then k, v
  for (int q = head * group; q < (head + 1) * group; ++q) {
    norm_and_rotate(args, rotation, q * dim, args.q_norm, x, args.q, q * dim);
  }
  const std::int64_t k_index = (args.n_heads + head) * dim, v_index = k_index + cache.n_kv_heads * dim;
  norm_and_rotate(args, rotation, k_index, args.k_norm, x, nullptr, 0);

  float score = args.score ? args.score[head] : 0.0f;
  if (args.scorer.project) {
    const float* v = as_floats(args.qkv, v_index, dim, cache.dtype, x + dim);
    if (v != x + dim) std::memcpy(x + dim, v, dim * sizeof(float));
    score = score_head(args.scorer, head, cache.head_dim, *args.position, x);
    if (args.score) args.score[head] = score;
  }
  const RetainDecision decision = retain_head(contest(args), head, score);
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
  validate(args);
  const SlotCacheView& cache = args.cache;
  const Rotation rotation = rotation_at(args);
  const std::int64_t dim = cache.head_dim;
  std::int64_t cost = 8 * dim * (args.n_heads / cache.n_kv_heads + 2);
  if (args.scorer.project) cost += 16 * dim * dim;
  if (args.rule != RetainRule::keep_all) cost += 4L * cache.n_slots[0];
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { admit_head(args, rotation, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
