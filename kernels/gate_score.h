#pragma once
#include <cmath>

#include "kernels/host_device.h"
#include "kernels/operation.h"

namespace kvscope::kernels {

/// What a token's score is made of.
enum class GateSource : std::int32_t {
  key_value = 0,  // x = [k ; v], as the cache holds them
  key_pair = 1,  // x = [rms(k_pre) pre_weight ; rms(k_post) post_weight]: the key before and after its rotation (WG-KV)
  query_channel =
      2,           // the last channel of the first query head of the group, after its norm, before its rotation (DMS)
  random = 3,      // uniform in [0, 1): counter_uniform(seed, layer, KV head, position), counter_random.h
  table = 4,       // known beforehand: table[KV head][position]; NaN after its end
  key_norm = 5,    // -|k| (Devoto et al., 2024)
  key_anchor = 6,  // -cos(k, a), a += k / |k| first: the sum of all keys so far, each of length 1 (KeyDiff)
};

enum class GateActivation : std::int32_t {
  silu = 0,
  gelu = 1,  // x / 2 (1 + erf(x / sqrt(2))), not its approximation by tanh
  identity = 2,
};

/// The score of one new token from what it is itself, for every KV head h:
///
///     s_h   = w2_h . act(W1_h x_h + b1_h) + b2_h     of the key sources;     w2_h . x_h + b2_h if n_hidden is 0
///     y_h   = scale s_h + offset
///     out_h = y_h, or 1 / (1 + exp(-y_h)) with `sigmoid`
///
/// k = rope(norm(k)) rounded to dtype, as admit_step stores it, is also k_post; k_pre = norm(k) is not rounded. norm is
/// the model's own where it has one. rms(x) = x / sqrt(mean(x^2) + gate_eps). Float32 inside.
///
/// |k| counts as at least 1e-12 where it divides, the norms of the cosine as 1e-8. `key_anchor` changes `anchor`: once a token.
///
/// To be enqueued before the token's admit_step, which takes `out` as its `score`. The position is read on the device.
struct GateScoreArgs {
  const void* qkv;               // [(n_heads + 2 n_kv_heads) * head_dim] dtype: before norm and rotation, admit_step.h
  const void* q_norm = nullptr;  // [head_dim] dtype, or null for a model without
  const void* k_norm = nullptr;  // likewise
  const float* inv_freq;         // [head_dim / 2]
  const std::int32_t* position;  // one number
  int n_heads;
  int n_kv_heads;
  int head_dim;
  float eps = 0;                // of the model's norms
  float norm_offset = 0;        // that their weights are added to
  float attention_scaling = 1;  // of the rotation
  DType dtype;
  GateSource source;
  float gate_eps = 1e-6f;              // > 0, of the gate's own norms, key_pair
  const float* pre_weight = nullptr;   // [head_dim], key_pair
  const float* post_weight = nullptr;  // [head_dim], key_pair
  const float* w1 = nullptr;           // [n_kv_heads, n_hidden, 2 head_dim]; on CUDA 16-byte aligned
  const float* b1 = nullptr;           // [n_kv_heads, n_hidden], or null for zeros
  const float* w2 = nullptr;  // [n_kv_heads, n_hidden], or [n_kv_heads, 2 head_dim] if n_hidden is 0: aligned too
  const float* b2 = nullptr;  // [n_kv_heads], or null for zeros
  int n_hidden = 0;           // 0 ... kMaxGateHidden
  GateActivation activation = GateActivation::silu;
  std::uint64_t seed = 0;        // random
  int layer = 0;                 // random
  const float* table = nullptr;  // [n_kv_heads, table_stride], table
  int table_stride = 0;          // positions
  float* anchor = nullptr;       // [n_kv_heads, head_dim] in and out, zeros before the first token; key_anchor
  float scale = 1;
  float offset = 0;
  bool sigmoid = false;
  float* out;  // [n_kv_heads]
};

inline constexpr int kMaxGateHidden = 4096;

KVSCOPE_HOST_DEVICE inline float table_score(const GateScoreArgs& args, int head, std::int32_t position) {
  if (position >= args.table_stride) return NAN;
  return args.table[static_cast<long long>(head) * args.table_stride + position];
}

/// Whether a source goes through W1 and w2.
constexpr bool has_weights(GateSource source) {
  return source == GateSource::key_value || source == GateSource::key_pair;
}

/// Whether it is a number of the key itself.
KVSCOPE_HOST_DEVICE constexpr bool is_of_key(GateSource source) {
  return source == GateSource::key_norm || source == GateSource::key_anchor;
}

/// The score of a key source without weights from |k|^2, k . a and |a|^2.
KVSCOPE_HOST_DEVICE inline float key_score(GateSource source, float key_square, float product, float anchor_square) {
  if (source == GateSource::key_norm) return -sqrtf(key_square);
  return -product / (fmaxf(sqrtf(key_square), 1e-8f) * fmaxf(sqrtf(anchor_square), 1e-8f));
}

/// One launch on CUDA, which refuses a head_dim other than 64, 80, 96, 128, 192, 256.
KVSCOPE_OPERATION_OF_ROWS(gate_score, GateScoreArgs);

}  // namespace kvscope::kernels
