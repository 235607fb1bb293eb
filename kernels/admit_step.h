#pragma once
#include "kernels/operation.h"
#include "kernels/retain_policy.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// One layer's delayed mLSTM scorer (KVpop eq. 10-11, App. E.3; engine/scorer/kvpop_scorer.h has the equations), all
/// float32. Token p writes its row p % delay of `queries` and `direct`, after the row was read for token p - delay.
/// With a delay of 0 a token is read by its own query as soon as it has been absorbed, and neither ring is needed.
struct MlstmScorerView {
  // [n_kv_heads, 2 D, 2 D + 3]: columns W_q (D/2), W_k (D/2), W_v (D), g_i, g_f, out[D:]; with softmax_map W_q and
  // W_k have D each
  const float* project = nullptr;
  const float* bias = nullptr;  // [n_kv_heads, 3]: b_i, b_f, b
  const float* read = nullptr;  // [n_kv_heads, D]: out[:D]
  // [n_kv_heads, D] weight of a LayerNorm of what is read, before SiLU: (h - mean) / sqrt(variance + norm_eps); or null
  const float* norm = nullptr;
  float* c = nullptr;        // [n_kv_heads, D, D] memory, updated
  float* z = nullptr;        // [n_kv_heads, D]
  float* m = nullptr;        // [n_kv_heads]; -inf before the first token
  float* queries = nullptr;  // [n_kv_heads, delay, D]: q~ of the last tokens; null for delay 0
  float* direct = nullptr;   // [n_kv_heads, delay]; likewise
  int delay = 0;
  float soft_cap = 0;  // c of c tanh(a / c) on both gates; 0 for none
  float norm_eps = 1e-6f;
  bool guarded = false;      // denominator of the read: MlstmStepArgs::guarded
  bool softmax_map = false;  // q~ and k~ are softmax(y), not [softmax(y), softmax(-y)]
};

/// Everything between the QKV product and attention for one new token, for every KV head and its query heads, in one
/// launch:
///
///     q, k    <- rope(norm(q)), rope(norm(k))            norm per head, where the model has one (rms_norm.h, rope.h)
///     score   <- of token position - delay, from the mLSTM memory after k, v; or as given in `score`
///     score   <- through the ring, where there is one: put away for its token, taken out for the newcomer
///     slot    <- retain_step(position, score), under `policy`
///     cache   <- k, v in slot
///
/// q and k are rounded to dtype once, after the rotation; the scorer sees the rounded k and v.
///
/// A contest is about token position - window, and most scorers know a token's score before that: when it comes (a gate
/// on its own key), or a token later (DMS). With `score_ring` the score of this step is that of token position -
/// score_delay and waits in cell (position - score_delay) % (window + 1) of its head; the newcomer's is in cell
/// (position - window) % (window + 1). Without a ring the score of this step is the newcomer's.
///
/// The position is read on the device, so that one captured launch serves every step.
struct AdmitStepArgs {
  SlotCacheView cache;
  const void* qkv;               // [(n_heads + 2 n_kv_heads) * head_dim] cache.dtype: q, k, v of the new token
  const void* q_norm = nullptr;  // [head_dim] cache.dtype, or null for a model without
  const void* k_norm = nullptr;  // likewise
  const float* inv_freq;         // [head_dim / 2]
  const std::int32_t* position;  // one number, q
  void* q;                       // [n_heads, head_dim] cache.dtype out: rotated queries
  int n_heads;
  float eps = 0;                // of the norms
  float norm_offset = 0;        // that their weights are added to
  float attention_scaling = 1;  // of the rotation
  // Channel of the first query head of every group that is 0 before and after the rotation (DMS, whose gate it is;
  // gate_score.h); -1 for none.
  int zero_channel = -1;
  MlstmScorerView scorer;       // scorer.project null: no scorer
  float* score = nullptr;       // [n_kv_heads]: with a scorer out (NaN while position < delay), without one in
  float* score_ring = nullptr;  // [n_kv_heads, window + 1] or null
  int score_delay = 0;          // with a ring: 0 ... window; a scorer's own delay
  RetainPolicy policy;
  RetainDecision* decision;  // [n_kv_heads] out
};

/// The reference is those of the operations above, one after the other.
KVSCOPE_OPERATION_OF_ROWS(admit_step, AdmitStepArgs);

}  // namespace kvscope::kernels
