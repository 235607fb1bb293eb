#pragma once
// Which token is in which slot of a cache, on the host, in the order of positions. Includes LibTorch.

#include <cstdint>
#include <vector>

#include "engine/decode/eviction/slot_cache.h"
#include "kernels/retain_policy.h"

namespace kvscope::engine {

/// Follows a cache from step to step: what a method reads of it between two steps needs no copy from the device, and is in order
/// without a sort.
class SlotOrder {
 public:
  struct Head {
    std::vector<std::int32_t> slots, positions;  // ascending positions
  };

  /// The tokens of every head, [n_layers * n_kv_heads], after n_tokens. Read from the cache, unless every step up to here was noted.
  const std::vector<Head>& read(const SlotCache& cache, int n_tokens);
  /// The step at `position` is over; decisions: [n_layers * n_kv_heads].
  void note_step(std::int32_t position, const kernels::RetainDecision* decisions);
  /// Tokens have left: `leave` are their places in the lists of each head, ascending; what was moved for it.
  void remove(const std::vector<std::vector<std::int32_t>>& leave, const std::vector<SlotCache::Move>& moves);
  /// The cache was changed in another way.
  void forget() { n_tokens_ = -1; }

 private:
  int n_tokens_ = -1;  // -1: nothing is known
  std::vector<Head> heads_;
};

}  // namespace kvscope::engine
