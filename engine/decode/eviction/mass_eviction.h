#pragma once
// Eviction of many tokens at once, between two queries: after a prompt that saw all of itself, at an interval, when the
// pool is full, when the budget was made smaller. What methods have in common of it. Includes LibTorch.

#include <functional>
#include <span>
#include <vector>

#include "engine/decode/eviction/sequence_state.h"

namespace kvscope::engine {

/// Tokens of the KV heads of some layers, each head's in the order of positions, on the device. The layers are alike: one
/// AttentionScores but for the sinks, and one rotation. After a head's last token there is anything, at a position after all queries.
struct OrderedTokens {
  std::vector<int> layers;    // of the model
  at::Tensor layer;           // the same, [layers] int64
  at::Tensor slot, position;  // [layers, n_kv_heads, most tokens] int64, int32
  at::Tensor k, v;            // [layers * n_kv_heads, most tokens, head_dim], for a score that reads them
  std::int64_t most() const { return slot.size(2); }
};

/// What a score reads of the tokens besides their slots.
enum class Reads { nothing, keys, keys_and_values };
/// How much each token is worth, [layers, n_kv_heads, most()] float32; on the device, and without waiting for it, where it can.
struct Score {
  Reads reads;
  std::function<at::Tensor(const OrderedTokens&)> of;
};

/// Tokens of one head: who they are and what they are worth, by position.
struct HeadTokens {
  const std::vector<std::int32_t>& positions;
  std::span<float> worth;

  /// Makes tokens from position `from` on, and the sinks, worth more than anything.
  void protect(int n_sink, int from);
  /// How many are not protected.
  std::int64_t n_free() const;
  /// What those are worth, in the order of positions.
  std::vector<float> free_worth() const;
  /// Places of those that are not among the n best, ascending; of equals the older is better. The protected are, whatever n is.
  std::vector<std::int32_t> all_but_best(std::int64_t n) const;
};

/// Places of those that leave each head of a layer, [n_kv_heads], ascending.
using Choose = std::function<std::vector<std::vector<std::int32_t>>(int layer, std::vector<HeadTokens> heads)>;

/// Scores every layer, lets `choose` say who leaves, and takes these out, in a cache of max_slots() slots a head, which is
/// asked when all have chosen; they have evict_at = n_tokens, the positions so far. facts of all of these: null to note nothing.
void evict(SequenceState& state, int n_tokens, const std::function<int()>& max_slots, const Score& score,
           const Choose& choose, StepFacts* facts);

/// Of every head the sinks, the tokens from position fixed_from on, and the best others stay, its budget in all.
struct Keep {
  int n_tokens, fixed_from;
  int n_more = 0;       // tokens that come before anything leaves again, unless the rule evicts at every step
  bool divides = true;  // by these scores, where the policy divides its budget by any
};
void keep_best(SequenceState& state, const Keep& keep, const Score& score, StepFacts* facts);

/// Whether a head holds more than its budget.
bool exceeds_budget(const SequenceState& state);

/// What the slots' priorities say of the tokens.
Score by_priority(const SequenceState& state);

/// What `of` makes of rows first ... first + n - 1 of n_rows, one row a KV head or a layer, all of them together; as many at once as have about
/// so many floats in each of their tensors. A GPU wants few launches, a core what its cache holds.
at::Tensor by_blocks(std::int64_t n_rows, std::int64_t floats_a_row, const at::Device& device,
                     const std::function<at::Tensor(std::int64_t first, std::int64_t n)>& of);

/// Makes a cache of a policy that was changed fit its budget.
void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts);

}  // namespace kvscope::engine
