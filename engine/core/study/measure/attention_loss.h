#pragma once
// What a head's queries lose by evicting a token, from the attention that they would have given it.

#include "engine/core/record/token_attention.h"

namespace kvscope {

/// Sums over the queries q from token + window on (before, no policy may evict it) of the mean over the query heads
/// [first_head, first_head + n_heads) of p(q):
///
///     all = sum p(q),   lost = sum over q >= evict_at of p(q)
struct AttentionLoss {
  double all = 0, lost = 0;
  double share() const { return all > 0 ? lost / all : 0; }
};

/// `index` of attention.tokens; evict_at as a lifetime has it: kNever and kUndecided (lifetime_map.h) lose nothing.
AttentionLoss attention_loss(const TokenAttention& attention, std::size_t index, int first_head, int n_heads,
                             int window, std::int32_t evict_at);

}  // namespace kvscope
