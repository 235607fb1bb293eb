#pragma once
// Eviction of many tokens at once, between two queries: after a prompt that saw all of itself, at an interval, when the
// pool is full, when the budget was made smaller. What methods have in common of it. Includes LibTorch.

#include <functional>
#include <vector>

#include "engine/decode/eviction/sequence_state.h"

namespace kvscope::engine {

/// One layer of the cache in the order of positions. What lies behind a head's last token is anything.
struct OrderedLayer {
  std::vector<std::vector<std::int32_t>> slots, positions;  // [n_kv_heads][tokens of the head]
  at::Tensor slot, position;                                // the same on the device, [n_kv_heads, most tokens] int64
  at::Tensor k, v;                                          // [n_kv_heads, most tokens, head_dim]; v if asked for
  std::int64_t most() const { return k.size(1); }
};

/// Tokens of one head: who they are and what they are worth, by position.
struct HeadTokens {
  const std::vector<std::int32_t>& positions;
  std::vector<float> worth;

  /// Makes tokens from position `from` on, and the sinks, worth more than anything.
  void protect(int n_sink, int from);
  /// How many are not protected.
  std::int64_t n_free() const;
  /// What those are worth, in the order of positions.
  std::vector<float> free_worth() const;
  /// Whether each is among the n best; of equals the older. The protected are, whatever n is.
  std::vector<char> best(std::int64_t n) const;
};

/// How much each token of a layer is worth, [n_kv_heads, most()] float32, in the order of `tokens`; on the device, and without waiting for it,
/// where it can.
using Score = std::function<at::Tensor(int layer, const OrderedLayer& tokens)>;
/// Who stays of each head of a layer, [n_kv_heads][tokens of the head].
using Choose = std::function<std::vector<std::vector<char>>(int layer, std::vector<HeadTokens> heads)>;

/// Scores every layer, lets `choose` say who stays, and leaves only these, in a cache of max_slots() slots a head, which is
/// asked when all have chosen; the others have evict_at = n_tokens, the positions so far. facts of all of these: null to note nothing.
void evict(SequenceState& state, int n_tokens, const std::function<int()>& max_slots, bool with_values,
           const Score& score, const Choose& choose, StepFacts* facts);

/// Of every head the sinks, the tokens from position fixed_from on, and the best others stay, its budget in all.
struct Keep {
  int n_tokens, fixed_from;
  int n_more = 0;            // tokens that come before anything leaves again, unless the rule evicts at every step
  bool with_values = false;  // what score() asks for
  bool divides = true;       // by these scores, where the policy divides its budget by any
};
void keep_best(SequenceState& state, const Keep& keep, const Score& score, StepFacts* facts);

/// Whether a head holds more than its budget.
bool exceeds_budget(const SequenceState& state);

/// What the slots' priorities say of the tokens, as a Score.
at::Tensor priorities(const SequenceState& state, int layer, const OrderedLayer& tokens);

/// Makes a cache of a policy that was changed fit its budget.
void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts);

}  // namespace kvscope::engine
