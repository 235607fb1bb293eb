#pragma once
// Eviction of many tokens at once, between two queries: after a prompt that saw all of itself, at an interval, when the
// pool is full, when the budget was made smaller. Includes LibTorch; private to generate/.

#include <vector>

#include "engine/decode/sequence_state.h"

namespace kvscope::engine {

/// One layer of the cache in the order of positions. What lies behind a head's last token is anything.
struct OrderedLayer {
  std::vector<std::vector<std::int32_t>> slots, positions;  // [n_kv_heads][tokens of the head]
  at::Tensor k, v;                                          // [n_kv_heads, most tokens, head_dim]
  std::int64_t most() const { return k.size(1); }
};
OrderedLayer order_layer(const SequenceState& state, int layer, bool with_values);

/// How much each token of a layer is worth to the method, [n_kv_heads, most()] float32 on the host, in the order of
/// `tokens`; n_tokens: positions so far. One file each.
at::Tensor snapkv_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens);
at::Tensor expected_attention_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens,
                                     bool of_prompt);
/// TOVA: attention of the last query, the same for all heads.
at::Tensor last_attention_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens);

/// H2O while a dense prompt passes through: adds to each token's priority the attention of queries q [n, n_heads,
/// head_dim] at positions first ... over keys k [n_kv_heads, first + n, head_dim], mean over the group; lse: [n_heads,
/// n].
void add_attention_sums(SequenceState& state, int layer, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& lse, std::int64_t first);

/// What the policy wants to leave when the prompt has passed. facts of all of these: null to note nothing.
void evict_after_prompt(SequenceState& state, int prompt_len, StepFacts* facts);
/// The same after each token of the answer. True if something left.
bool evict_after_step(SequenceState& state, int prompt_len, int n_tokens, StepFacts* facts);
/// Makes a cache of a policy that was changed fit its budget.
void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts);

}  // namespace kvscope::engine
