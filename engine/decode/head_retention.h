#pragma once
// One KV head while a prompt passes through: which token is in which slot, and until when. Plain C++, no tensors.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/lifetime/lifetime_rule.h"

namespace kvscope::engine {

/// Use per chunk of queries [first, first + n): decide(), then commit(), which gives slots to the chunk's survivors; what
/// is read from vacated() and evict_at() describes the chunk's attention. What it remembers is bounded by what the policy
/// keeps, and a chunk costs what it changes.
class HeadRetention {
 public:
  struct Kept {
    std::int32_t position;
    std::int32_t slot;
    float score;            // raw; 0 while it is not known
    std::int32_t evict_at;  // within the chunk that was decided last, or kNever
  };
  struct Vacated {
    std::int32_t slot, evict_at;
  };

  /// delay: tokens between a token and its score, 0 ... window. defers: whoever is evicted within a chunk is seen until
  /// its end, evict_at = first + n; at its first query as ever.
  HeadRetention(std::unique_ptr<LifetimeRule> rule, int n_sink, int window, int delay, bool defers = false);

  /// Decides for the next n queries. scores: [n], scores[i] is that of token first + i - delay, read where that is not
  /// negative; empty for a policy without scores.
  void decide(std::int32_t n, std::span<const float> scores);
  /// Scores of the chunk that decide() had none of and commit() has ended, where nobody leaves by them within it.
  void score(std::span<const float> scores);
  /// Of the chunk's end: evicted tokens' slots are given to the chunk's survivors, the others take fresh ones.
  void commit();

  /// Between chunks: the cache was made anew by somebody else's eviction, slot i has the token at position_by_slot[i].
  void renumber(std::span<const std::int32_t> position_by_slot);

  /// Tokens that are kept, ascending by position.
  const std::vector<Kept>& kept() const { return kept_; }
  /// Slots, as they were at the chunk's begin, whose tokens did not see its end; after commit().
  const std::vector<Vacated>& vacated() const { return vacated_; }
  /// Of the chunk's own tokens, [n].
  const std::vector<std::int32_t>& evict_at() const { return evict_at_; }
  /// What the chunk decided, in the order of the queries; it is handed over, once.
  std::vector<TokenEviction> take_evictions() { return std::exchange(evictions_, {}); }
  std::vector<Contest> take_contests() { return std::exchange(contests_, {}); }
  /// Slots that are, or were, in use.
  std::int32_t n_slots() const { return n_slots_; }
  /// Slot of each token of the chunk, -1 for those that did not see its end; [n], after commit().
  const std::vector<std::int32_t>& slots() const { return slots_; }

 private:
  Kept& find(std::int32_t position);
  float& score_of(std::int32_t token);
  void evict(std::int32_t token, std::int32_t q);

  std::unique_ptr<LifetimeRule> rule_;
  std::int32_t n_sink_, window_, delay_;
  bool defers_;
  std::int32_t first_ = 0;  // of the chunk
  std::int32_t n_slots_ = 0;
  std::vector<Kept> kept_;
  std::size_t first_gone_ = 0;  // of kept_, from where on the chunk evicts
  std::vector<std::int32_t> evict_at_, slots_;
  std::vector<float> score_;  // of the chunk's own tokens
  std::vector<TokenEviction> evictions_;
  std::vector<Vacated> vacated_;
  std::vector<Contest> contests_;
};

}  // namespace kvscope::engine
