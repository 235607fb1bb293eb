#pragma once
// What the oracle keeps, query by query, and how a policy's choice stands to it.

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// One head at one query q, over its eligible tokens E(q) = {n_sink <= t <= q - window}: P(q) of them the policy keeps,
/// O(q) the oracle, c(q) = |O(q)|.
struct OracleCounts {
  std::int32_t eligible = 0, kept = 0, capacity = 0, hits = 0;  // |E|, |P|, c, |P and O|
  std::int32_t pool = 0;  // c of all heads that share a capacity; of one that has its own the same
  /// Whether somebody had to choose: 0 < c < |E|; of a pool, among all its heads.
  bool chosen = false;
  double eligible_mass = 0, kept_mass = 0, oracle_mass = 0;  // sums of effects (OracleSpec) over E, P and O
  double first_mass = 0;                                     // of token 0, if it is eligible
  bool keeps_first = false;                                  // and in P

  /// |P and O| / c; NaN where nothing was chosen.
  double recall() const { return chosen ? ratio(hits, capacity) : kNone; }
  /// |P| / |E|: the recall of |P| tokens drawn at random, exact, as O depends on P through c alone.
  double chance() const { return chosen ? ratio(kept, eligible) : kNone; }
  /// Effect of P / that of E: always, also where recall is undefined. Not bounded below by chance.
  double mass_kept() const { return ratio(kept_mass, eligible_mass); }
  /// The same without token 0, on which the attention of a model may come to rest.
  double mass_kept_but_first() const {
    return ratio(kept_mass - (keeps_first ? first_mass : 0), eligible_mass - first_mass);
  }
  /// Effect of P / that of O; may exceed 1, as a decaying oracle does not take the greatest.
  double mass_recall() const { return chosen ? ratio(kept_mass, oracle_mass) : kNone; }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  static double ratio(double part, double whole) { return whole > 0 ? part / whole : kNone; }
};

/// The oracle of OracleSpec over one run:
///
///     O(q) = the c(q) tokens of E(q) of greatest target_t + floor((q - t) / n) log gamma, of equals the older
///
/// under the policy's own decay. A set for each query, not a cache: where c is constant or shrinks it is what a running
/// contest keeps (n = 1); where c grows it may hold a token again. Refers to the run; safe to read from any thread.
class Oracle {
 public:
  /// As run.oracle says, or another one of the same recorded masses.
  explicit Oracle(const RunRecord& run) : Oracle(run, run.oracle) {}
  Oracle(const RunRecord& run, const OracleSpec& spec);
  /// A yardstick that runs of the same tokens have in common: masses of `teacher`, and no decay. n_sink and window: the
  /// larger of theirs. `spec` needs a stated capacity for the runs to be asked the same question. `pair`: these runs; a head
  /// is asked from the query on at which one of them has lost a token of it. Without them it is at every one.
  Oracle(const RunRecord& run, const OracleSpec& spec, const RunRecord& teacher, int n_sink, int window,
         std::array<const RunRecord*, 2> pair = {});

  /// Whether the masses that it goes by were recorded.
  bool is_known() const { return !effect_.empty(); }
  int n_layers() const { return run_.model.n_layers; }
  int n_kv_heads() const { return run_.model.n_kv_heads; }
  const OracleSpec& spec() const { return spec_; }
  /// Queries that it can speak of: those that were made, and that the teacher has seen.
  int n_queries() const { return n_queries_; }
  int n_sink() const { return n_sink_; }
  int window() const { return window_; }

  /// q < n_queries().
  OracleCounts counts(int layer, int kv_head, std::int32_t q) const;
  /// Whether O(q) has each token, [q + 1].
  std::vector<std::uint8_t> keeps(int layer, int kv_head, std::int32_t q) const;
  /// counts() for every query, [n_queries()]: O(n log n) a head, together with its pool if it has one.
  std::vector<OracleCounts> curve(int layer, int kv_head) const;
  /// The same for all heads, [n_layers * n_kv_heads].
  std::vector<std::vector<OracleCounts>> curves() const;

  /// How much token t matters to a head: mass times weight of the spec; NaN if it has no later query.
  float effect(int layer, int kv_head, std::int32_t t) const;
  /// log(1e-6 + effect) of each token.
  std::vector<double> targets(int layer, int kv_head) const;

 private:
  friend class OracleCurve;
  struct Decay {
    std::int32_t from;  // first query that it holds for
    double log_gamma;
    int stride;
    bool learned = false;  // each head has its own, of the run
  };
  struct Candidate {
    double priority;
    std::int32_t t;
    int head;  // flat
    bool operator<(const Candidate& other) const;
  };

  int n_heads() const { return run_.model.n_layers * run_.model.n_kv_heads; }
  int flat(int layer, int kv_head) const { return layer * run_.model.n_kv_heads + kv_head; }
  std::span<const std::int32_t> lifetimes(int head) const;
  bool is_counted(std::span<const std::int32_t> evict_at, std::int32_t t) const;
  const Decay& decay_at(std::int32_t q) const;
  double log_gamma(const Decay& decay, int head) const {
    return decay.learned ? run_.heads[static_cast<std::size_t>(head)].log_gamma : decay.log_gamma;
  }
  /// Adds the eligible tokens of a head at q to `candidates`; returns how many of them the policy keeps.
  int gather(int head, std::int32_t q, std::vector<Candidate>& candidates) const;
  int capacity(int kept, int eligible) const;
  /// The first query at which a run of the pair has lost a token of that head (flat); 0 without a pair.
  std::int32_t asked_from(int head) const;
  /// The eligible tokens of one head's pool at q, the first `capacity` of which are O(q).
  struct Pool {
    std::vector<Candidate> eligible;
    int capacity = 0;
    bool is_choice() const { return capacity > 0 && capacity < static_cast<int>(eligible.size()); }
  };
  Pool pool_at(int head, std::int32_t q) const;

  const RunRecord& run_;
  OracleSpec spec_;
  int n_sink_ = 0, window_ = 0, n_queries_ = 0;
  int stated_ = -1;  // capacity beside sinks and window; -1: that of the policy
  std::array<const RunRecord*, 2> pair_{};
  std::vector<Decay> decays_;
  HeadSeries<float> effect_;
};

/// O(q) of one head of the run's own oracle, for whoever asks about many tokens.
class OracleSet {
 public:
  OracleSet(const RunRecord& run, int layer, int kv_head, std::int32_t q);
  /// Whether something was chosen at q, and t is eligible.
  bool judges(std::int32_t t) const { return chosen_ && t >= n_sink_ && t <= last_; }
  /// t is in O(q).
  bool keeps(std::int32_t t) const {
    return t >= 0 && static_cast<std::size_t>(t) < keeps_.size() && keeps_[static_cast<std::size_t>(t)] != 0;
  }

 private:
  bool chosen_ = false;
  std::int32_t n_sink_ = 0, last_ = -1;
  std::vector<std::uint8_t> keeps_;
};

/// Whether the oracle would have kept a token when the policy let it go.
enum class EvictionVerdict : std::uint8_t {
  right,    // not in O(evict_at), of as many tokens as the head kept then
  wrong,    // in it
  unknown,  // not evicted, no oracle, evicted from within the window, or by a query that the oracle has not seen
};
struct VerdictOfEviction {
  EvictionVerdict verdict = EvictionVerdict::unknown;
  /// The head kept nothing then, so that an oracle of as many tokens keeps nothing: judged by one of 25 % of the run.
  bool by_quarter = false;
};
VerdictOfEviction eviction_verdict(const RunRecord& run, int layer, int kv_head, std::int32_t t);
/// As files have it: 0 right, 1 wrong, 2 and 3 the same by a quarter, 255 not judged.
inline constexpr std::uint8_t kNotJudged = 255;
constexpr std::uint8_t verdict_code(const VerdictOfEviction& found) {
  if (found.verdict == EvictionVerdict::unknown) return kNotJudged;
  return static_cast<std::uint8_t>((found.verdict == EvictionVerdict::wrong ? 1 : 0) + (found.by_quarter ? 2 : 0));
}
/// The same for every token of every head, [n_layers * n_kv_heads][n_tokens]; empty without an oracle.
std::vector<std::vector<VerdictOfEviction>> eviction_verdicts(const RunRecord& run);
/// Those of one head, [n_tokens]: at the cost of its pool.
std::vector<VerdictOfEviction> eviction_verdicts(const RunRecord& run, int layer, int kv_head);

/// Means over (head, query) pairs at which something was chosen, each with the same weight. Over all heads and queries of a
/// run these are THE recall, chance and mass recall of the run, wherever one is shown (docs/explanation/oracle.md says why).
struct OracleMean {
  std::int64_t n = 0;  // pairs
  double recall = 0, chance = 0, mass_recall = 0;
  double mass_kept = 0;      // over all pairs with an eligible token
  double capacity = 0;       // tokens that the oracle holds, k
  bool one_capacity = true;  // it is the same at every pair
  /// (mean recall - mean chance) / (1 - mean chance): 0 is random, 1 the oracle.
  double above_chance() const { return (recall - chance) / (1 - chance); }
};
class MeanOverPairs {
 public:
  void add(const OracleCounts& counts);
  OracleMean value() const;

 private:
  OracleMean sums_;
  std::int64_t n_mass_ = 0;
  std::int32_t first_capacity_ = 0;
};
OracleMean mean_of(std::span<const OracleCounts> curve);
/// Over the heads at one query, or at the last one that the oracle has seen.
OracleMean mean_at(const Oracle& oracle, std::int32_t q);
/// Over all heads and the queries up to `q`. NaN where n is 0.
OracleMean mean_of(const Oracle& oracle, std::int32_t q = std::numeric_limits<std::int32_t>::max());

}  // namespace kvscope
