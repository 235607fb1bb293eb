#pragma once
// What a sequence under a policy carries from token to token. Includes LibTorch; private to decode/.

#include <memory>

#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/eviction/attention_method.h"
#include "engine/decode/eviction/slot_order.h"
#include "engine/scorer/loaded_model.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {

struct SequenceState {
  /// forced_chunk and first: as ActivePolicy has them.
  SequenceState(const LoadedModel& model, const PolicySpec& policy, int n_positions, int forced_chunk = 0,
                FirstPass first = {});
  SequenceState(const SequenceState&) = delete;  // the methods refer to it

  /// ActivePolicy::change, if the methods agree.
  void change_policy(const PolicySpec& next);

  /// Leaves in every head what stands in the slots of `keep` alone ([n_layers * n_kv_heads]), in a cache of at most
  /// max_slots slots a head.
  void keep_only(const std::vector<std::vector<std::int32_t>>& keep, int max_slots);

  /// Takes the tokens at these places of `order` out, [n_layers * n_kv_heads], ascending, after n_tokens: a few of a cache of about
  /// max_slots slots a head, whose pool is in use, where they are, so that it costs what leaves; else as keep_only().
  void take_out(int n_tokens, const std::vector<std::vector<std::int32_t>>& leave, int max_slots);

  /// Before the query at position n_tokens: recent_slot as the cache has it, unless steps have kept it so.
  void find_recent_slots(int n_tokens);

  const LoadedModel& model;
  int n_positions;
  ActivePolicy policy;
  std::unique_ptr<ScorerMemory> memory;
  SlotCache cache;
  /// Kept up to date by methods that read it after many steps (AttentionMethod::observe_step).
  SlotOrder order;
  /// Scores that wait for their token to leave the window: token t in cell t % (window + 1) of [n_layers, n_kv_heads,
  /// window + 1]. Undefined for a scorer that speaks just then.
  at::Tensor score_ring;
  /// RetainPolicy::recent_slot of every layer, [n_layers, n_kv_heads, window] int32. Undefined for a rule that looks at all slots anyway.
  at::Tensor recent_slot;
  /// What the policy does by attention, in the order in which it does it.
  std::vector<std::unique_ptr<AttentionMethod>> methods;

 private:
  void tell_change();

  bool knows_recent_slots_ = false;
};

}  // namespace kvscope::engine
