#include "kernels/gate_score.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/norm_rotate.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"
#include "kernels/rule/counter_random.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kPiece = 512;  // hidden numbers at a time, on the stack

/// x [2 head_dim] of a key source.
void fill_inputs(const GateScoreArgs& args, const Rotation& rotation, int head, float* x) {
  const int dim = args.head_dim;
  const std::int64_t k_index = (static_cast<std::int64_t>(args.n_heads) + head) * dim;
  const std::int64_t v_index = k_index + static_cast<std::int64_t>(args.n_kv_heads) * dim;
  float buffer[kMaxHeadDim];
  const float* before = normed(args.qkv, k_index, args.k_norm, args.eps, args.norm_offset, dim, args.dtype, buffer);
  const bool is_pair = args.source == GateSource::key_pair;
  float* after = is_pair ? x + dim : x;
  rotate(before, rotation, dim, after);
  round_to(after, dim, args.dtype);
  if (!is_pair) {
    return copy_floats(args.qkv, v_index, dim, args.dtype, x + dim);
  }
  const auto inverse = [&](const float* k) {
    return 1 / std::sqrt(dot(k, k, dim) / static_cast<float>(dim) + args.gate_eps);
  };
  scale_by(x, before, inverse(before), args.pre_weight, dim);
  scale_by(after, after, inverse(after), args.post_weight, dim);
}

void activate(GateActivation activation, float* x, int n) {
  if (activation == GateActivation::silu) silu(x, n);
  if (activation == GateActivation::gelu) gelu(x, n);
}

float score_from_weights(const GateScoreArgs& args, const Rotation& rotation, int head) {
  const int n_inputs = 2 * args.head_dim;
  float x[2 * kMaxHeadDim], hidden[kPiece];
  fill_inputs(args, rotation, head, x);
  float score = args.b2 ? args.b2[head] : 0.0f;
  if (args.n_hidden == 0) return score + dot(args.w2 + static_cast<std::int64_t>(head) * n_inputs, x, n_inputs);
  for (int begin = 0; begin < args.n_hidden; begin += kPiece) {
    const int n = std::min(kPiece, args.n_hidden - begin);
    const std::int64_t first = static_cast<std::int64_t>(head) * args.n_hidden + begin;
    best_gemv().multiply(DType::f32, args.w1, first * n_inputs, x, n_inputs, n, 1, hidden, kPiece);
    if (args.b1) add_scaled(hidden, 1, args.b1 + first, n);
    activate(args.activation, hidden, n);
    score += dot(args.w2 + first, hidden, n);
  }
  return score;
}

float score_of_key(const GateScoreArgs& args, const Rotation& rotation, int head) {
  const int dim = args.head_dim;
  float buffer[kMaxHeadDim], key[kMaxHeadDim];
  const std::int64_t index = (static_cast<std::int64_t>(args.n_heads) + head) * dim;
  rotate(normed(args.qkv, index, args.k_norm, args.eps, args.norm_offset, dim, args.dtype, buffer), rotation, dim, key);
  round_to(key, dim, args.dtype);
  const float square = dot(key, key, dim);
  if (args.source == GateSource::key_norm) return key_score(args.source, square, 0, 0);
  float* anchor = args.anchor + static_cast<std::int64_t>(head) * dim;
  add_scaled(anchor, 1 / std::max(std::sqrt(square), 1e-12f), key, dim);
  return key_score(args.source, square, dot(key, anchor, dim), dot(anchor, anchor, dim));
}

float score_of(const GateScoreArgs& args, const Rotation& rotation, int head) {
  if (has_weights(args.source)) return score_from_weights(args, rotation, head);
  if (is_of_key(args.source)) return score_of_key(args, rotation, head);
  if (args.source == GateSource::table) return table_score(args, head, *args.position);
  if (args.source == GateSource::random) return counter_uniform(args.seed, args.layer, head, *args.position);
  const std::int64_t query = static_cast<std::int64_t>(head) * (args.n_heads / args.n_kv_heads) * args.head_dim;
  float buffer[kMaxHeadDim];
  return normed(args.qkv, query, args.q_norm, args.eps, args.norm_offset, args.head_dim, args.dtype,
                buffer)[args.head_dim - 1];
}

}  // namespace

void gate_score(const GateScoreArgs& args) {
  const bool has_keys = has_weights(args.source) || is_of_key(args.source);
  const Rotation rotation =
      has_keys ? rotation_at(*args.position, args.inv_freq, args.head_dim, args.attention_scaling) : Rotation{};
  const std::int64_t cost = has_keys ? 4L * args.head_dim * (args.n_hidden + 8) : 4L * args.head_dim;
  parallel_for(args.n_kv_heads, cost, [&](std::int64_t head) {
    const float y = args.scale * score_of(args, rotation, static_cast<int>(head)) + args.offset;
    args.out[head] = args.sigmoid ? 1 / (1 + std::exp(-y)) : y;
  });
}

}  // namespace kvscope::kernels::cpu
