#pragma once
// KVpop's running top-k with one budget for all heads of a model.

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/long_range_slots.h"

namespace kvscope {

/// The contest of running_top_k() over the tokens of all heads. What a head keeps depends on the scores of layers above it,
/// which a query has when it has passed them all: so it is held between two queries. Before query q
///
///     E(q) = {(h, t) : n_sink <= t <= q - window - late, not evicted}
///
/// is cut to places = n_heads (top_k - late) tokens: those of least score + floor((q - t) / stride) log gamma_h leave, and
/// evict_at = q. Of equals the older stays, then that of the lower layer, then of the lower head. late is 1 for a scorer that
/// speaks only with the query at which its token leaves the window (delay = window), 0 for all others: the n_heads tokens
/// without a score are seen by that query and have their places kept free. So at every query that was preceded by a cut
///
///     sum over h of |{t : n_sink <= t <= q - window, q < evict_at}| <= n_heads top_k.
///
/// A pool that is cut only before every interval-th query leaves interval - 1 places a head more free, into which the tokens
/// go that leave the window until the next cut, and the bound holds at every query all the same.
///
/// With one head, interval = 1 and late = 0 it is running_top_k(), with late = 1 that of a window longer by one under the same budget.
class PooledTopK {
 public:
  /// A token that leaves, with what it was compared by.
  struct Leaver {
    int head;
    std::int32_t t;
    float effective;
  };
  struct Cut {
    std::int32_t q = 0, newcomer = -1;                       // newcomer: the newest that was judged
    std::vector<Leaver> left;                                // by head, then by position
    float lowest = std::numeric_limits<float>::quiet_NaN();  // the least of those that stay; NaN without any, or a loss

    /// At most one a head, that of the strongest that it lost: boundary and evicted are this token, newcomer_effective is
    /// `lowest`.
    std::vector<Contest> contests(int n_kv_heads) const;
  };

  /// of_head: [n_heads], alike but for log_gamma; top_k >= interval. delay: tokens between a token and its score,
  /// 0 ... window; interval: queries from one cut to the next, >= 1. Throws std::invalid_argument for anything else.
  PooledTopK(std::vector<RetentionGeometry> of_head, int delay, int interval = 1);
  /// Other decay, stride or top_k from the next cut on.
  void change(std::vector<RetentionGeometry> of_head);
  /// A token's raw score, of each head t ascending; of sinks it means nothing. A NaN counts as -inf.
  void tell(int head, std::int32_t t, float score);
  /// Before query q, which rises from call to call; the scores of all t < q - delay have been told. O(n_heads + leavers)
  /// searches of a head's tokens; where more than a quarter leave, one pass over all.
  Cut cut(std::int32_t q);

 private:
  using Slots = std::variant<StaticSlots, DecayingSlots>;
  struct Token {
    float effective;
    int head;
    Candidate candidate;
  };
  static bool leaves_before(const Token& a, const Token& b);
  static Slots slots_of(const RetentionGeometry& geometry);
  void add(int head, const Candidate& candidate);
  Token weakest_of(int head, std::int32_t q);
  float effective(int head, const Candidate& candidate, std::int32_t q) const;
  int late() const { return delay_ >= of_head_[0].window ? 1 : 0; }
  int kept_free() const { return late() + interval_ - 1; }
  void cut_few(std::size_t n, Cut& cut);
  void cut_many(std::size_t n, std::vector<Token> entering, Cut& cut);

  std::vector<RetentionGeometry> of_head_;
  int delay_, interval_;
  std::vector<std::deque<Candidate>> waiting_;  // [n_heads]: in the window still
  std::vector<Slots> slots_;                    // [n_heads]
  std::size_t n_ = 0;                           // in all slots
};

/// Before which queries a pool is cut.
struct PooledCuts {
  int interval = 0;        // every multiple of it; 0: every query from `first` on
  std::int32_t first = 0;  // of a run the length of its prompt, which is dense then
  bool before(std::int32_t q) const { return interval > 0 ? q % interval == 0 : q >= first; }
  int apart() const { return interval > 0 ? interval : 1; }
};

/// Lifetimes of all heads from their raw scores, [n_layers][n_kv_heads][n_tokens] or none where no token leaves. evict_at and
/// contests as in running_top_k(), contests with their heads and by query.
void pooled_top_k(const HeadSeries<float>& scores, std::vector<RetentionGeometry> of_head, int delay,
                  const PooledCuts& cuts, std::int32_t n_queries, LifetimeMap& evict_at,
                  std::vector<Contest>* contests = nullptr);

}  // namespace kvscope
