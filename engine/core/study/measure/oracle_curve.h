#pragma once
// One pool of heads at every query of a run, in O(n log n): tokens enter at their ranks in Fenwick trees as they leave
// the window, and the capacity finds the cutoff rank. Private to study/.

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/oracle.h"

namespace kvscope {

/// Counts and sums over prefixes of ranks.
template <typename T>
class Fenwick {
 public:
  explicit Fenwick(std::size_t n) : tree_(n + 1, T{}) {}
  void add(std::size_t rank, T value) {
    for (std::size_t i = rank + 1; i < tree_.size(); i += i & -i) tree_[i] += value;
  }
  /// Of ranks below `end`.
  T sum(std::size_t end) const {
    T total{};
    for (std::size_t i = end; i > 0; i -= i & -i) total += tree_[i];
    return total;
  }
  /// The least end with sum(end) >= wanted, which must be there.
  std::size_t find(T wanted) const {
    std::size_t end = 0, step = 1;
    while (2 * step < tree_.size()) step *= 2;
    for (; step > 0; step /= 2) {
      if (end + step < tree_.size() && tree_[end + step] < wanted) wanted -= tree_[end += step];
    }
    return end + 1;
  }

 private:
  std::vector<T> tree_;
};

/// One pool of heads (one head, or all of them) under one order of its tokens.
class OracleCurve {
 public:
  /// The order of queries q with q mod stride = residue under that decay. It depends on q by a common term alone:
  /// floor((q - t) / stride) = (q - residue) / stride + floor((residue - t) / stride).
  OracleCurve(const Oracle& oracle, std::vector<int> heads, const Oracle::Decay& decay, int residue)
      : oracle_(oracle), order_(order(heads, decay, residue)), eligible_(order_.size()) {
    for (const int head : heads) heads_.emplace_back(head);
    if (heads.size() > 1) index_.resize(static_cast<std::size_t>(oracle.n_heads()));
    for (std::size_t i = 0; i < heads.size(); ++i)
      if (!index_.empty()) index_[static_cast<std::size_t>(heads[i])] = i;
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      Head& head = head_of(order_[rank].head);
      head.ranks.push_back(rank);
      head.tokens.push_back(order_[rank].t);
    }
    for (Head& head : heads_) head.prepare(oracle);
  }

  /// Calls visit(pool, q) for every query of a run, in the order of decays and residues rather than of queries.
  template <typename Visit>
  static void for_each_query(const Oracle& oracle, const std::vector<int>& heads, Visit&& visit) {
    const auto& decays = oracle.decays_;
    for (std::size_t i = 0; i < decays.size(); ++i) {
      const std::int32_t end = std::min(i + 1 < decays.size() ? decays[i + 1].from : INT32_MAX, oracle.n_queries());
      const int stride = decays[i].log_gamma == 0 && !decays[i].learned ? 1 : decays[i].stride;
      for (int residue = 0; residue < stride; ++residue) {
        OracleCurve pool(oracle, heads, decays[i], residue);
        for (std::int32_t q = 0; q < end; ++q) {
          pool.pass(q);
          if (q >= decays[i].from && q % stride == residue) visit(pool, q);
        }
      }
    }
  }
  /// The pools of a run: each head by itself, or all in one.
  static std::vector<std::vector<int>> pools(const Oracle& oracle) {
    std::vector<std::vector<int>> pools(oracle.spec().pooled ? 1 : static_cast<std::size_t>(oracle.n_heads()));
    for (int head = 0; head < oracle.n_heads(); ++head) pools[oracle.spec().pooled ? 0 : head].push_back(head);
    return pools;
  }

  /// Lets query q pass: its newcomer enters, and who leaves at q leaves.
  void pass(std::int32_t q) {
    q_ = q;
    for (Head& head : heads_) {
      const std::int32_t newcomer = q - oracle_.window();
      if (newcomer >= 0 && newcomer < static_cast<std::int32_t>(head.rank_of.size()) && head.rank_of[newcomer] >= 0) {
        enter(head, newcomer, q);
      }
      while (head.next_leaver < head.leavers.size() && head.evict_at[head.leavers[head.next_leaver]] <= q) {
        leave(head, head.leavers[head.next_leaver++]);
      }
    }
  }

  /// counts() of each head as of the last query that passed.
  void read(std::vector<OracleCounts>& out) const {
    int all = 0;
    for (const Head& head : heads_) all += head.counts.eligible;
    const int c = capacity();
    const std::size_t cutoff = cutoff_of(c);
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      const Head& head = heads_[i];
      const std::size_t end = head.rank_below(cutoff);
      OracleCounts& counts = out[i] = head.counts;
      counts.pool = c;
      counts.capacity = head.eligible.sum(end);
      counts.hits = head.kept.sum(end);
      counts.oracle_mass = head.mass.sum(end);
      counts.chosen = c > 0 && c < all && counts.capacity > 0 && q_ >= head.asked_from;
    }
  }

  /// Calls visit(index of the head, token, whether O(q) has it) for every eligible token that leaves at q, the last
  /// query that passed.
  template <typename Visit>
  void visit_evicted(std::int32_t q, Visit&& visit) const {
    const std::size_t cutoff = cutoff_of(capacity());
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      const Head& head = heads_[i];
      const auto at_q = std::ranges::equal_range(head.evicted, q, {}, [&](std::int32_t t) { return head.evict_at[t]; });
      for (const std::int32_t t : at_q) {
        visit(i, t, static_cast<std::size_t>(head.rank_of[t]) < head.rank_below(cutoff));
      }
    }
  }

 private:
  struct Head {
    explicit Head(int number) : number(number) {}
    void prepare(const Oracle& oracle) {
      evict_at = oracle.lifetimes(number);
      asked_from = oracle.asked_from(number);
      eligible = kept = Fenwick<std::int32_t>(tokens.size());
      mass = Fenwick<double>(tokens.size());
      std::int32_t last = -1;
      for (const std::int32_t t : tokens) last = std::max(last, t);
      rank_of.assign(static_cast<std::size_t>(last + 1), -1);
      for (std::size_t i = 0; i < tokens.size(); ++i) rank_of[tokens[i]] = static_cast<std::int32_t>(i);
      for (const std::int32_t t : tokens) {
        if (evict_at[t] >= kUndecided || evict_at[t] < t + oracle.window()) continue;
        evicted.push_back(t);
        // Whoever leaves with the window is never among the kept.
        if (evict_at[t] > t + oracle.window()) leavers.push_back(t);
      }
      const auto time = [this](std::int32_t t) { return evict_at[t]; };
      std::ranges::sort(evicted, {}, time);
      std::ranges::sort(leavers, {}, time);
    }
    /// How many of its ranks are below one of the pool.
    std::size_t rank_below(std::size_t cutoff) const {
      return static_cast<std::size_t>(std::ranges::lower_bound(ranks, cutoff) - ranks.begin());
    }

    int number;  // flat
    std::int32_t asked_from = 0;
    std::span<const std::int32_t> evict_at;
    std::vector<std::size_t> ranks;     // in the pool, ascending
    std::vector<std::int32_t> tokens;   // of these ranks
    std::vector<std::int32_t> rank_of;  // in the head, by token; -1: not a candidate
    std::vector<std::int32_t> evicted;  // from behind the window, by evict_at
    std::vector<std::int32_t> leavers;  // of these who were kept for a while
    std::size_t next_leaver = 0;
    Fenwick<std::int32_t> eligible{0}, kept{0};
    Fenwick<double> mass{0};
    OracleCounts counts;
  };

  std::vector<Oracle::Candidate> order(const std::vector<int>& heads, const Oracle::Decay& decay, int residue) const {
    std::vector<Oracle::Candidate> order;
    const int kv_heads = oracle_.run_.model.n_kv_heads;
    for (const int head : heads) {
      const std::vector<double> targets = oracle_.targets(head / kv_heads, head % kv_heads);
      const std::span<const std::int32_t> evict_at = oracle_.lifetimes(head);
      for (std::int32_t t = oracle_.n_sink(); t < static_cast<std::int32_t>(targets.size()); ++t) {
        if (std::isnan(targets[t]) || !oracle_.is_counted(evict_at, t)) continue;
        const double steps = std::floor(static_cast<double>(residue - t) / decay.stride);
        order.push_back({targets[t] + steps * oracle_.log_gamma(decay, head), t, head});
      }
    }
    std::sort(order.begin(), order.end());
    return order;
  }

  int capacity() const {
    int c = 0;
    for (const Head& head : heads_) c += oracle_.capacity(head.counts.kept, head.counts.eligible);
    return c;
  }
  /// Ranks of the pool below it are in O.
  std::size_t cutoff_of(int capacity) const { return capacity > 0 ? eligible_.find(capacity) : 0; }

  Head& head_of(int number) { return index_.empty() ? heads_[0] : heads_[index_[static_cast<std::size_t>(number)]]; }

  void enter(Head& head, std::int32_t t, std::int32_t q) {
    const auto rank = static_cast<std::size_t>(head.rank_of[t]);
    const int kv_heads = oracle_.run_.model.n_kv_heads;
    const double mass = oracle_.effect(head.number / kv_heads, head.number % kv_heads, t);
    eligible_.add(head.ranks[rank], 1);
    head.eligible.add(rank, 1);
    head.mass.add(rank, mass);
    ++head.counts.eligible;
    head.counts.eligible_mass += mass;
    const bool kept = visible(q, t, head.evict_at[t]);
    if (kept) {
      head.kept.add(rank, 1);
      ++head.counts.kept;
      head.counts.kept_mass += mass;
    }
    if (t != 0) return;
    head.counts.first_mass = mass;
    head.counts.keeps_first = kept;
  }

  void leave(Head& head, std::int32_t t) {
    const int kv_heads = oracle_.run_.model.n_kv_heads;
    head.kept.add(static_cast<std::size_t>(head.rank_of[t]), -1);
    --head.counts.kept;
    head.counts.kept_mass -= oracle_.effect(head.number / kv_heads, head.number % kv_heads, t);
    if (t == 0) head.counts.keeps_first = false;
  }

  const Oracle& oracle_;
  std::int32_t q_ = -1;  // that passed last
  std::vector<Oracle::Candidate> order_;
  Fenwick<std::int32_t> eligible_;
  std::vector<Head> heads_;
  std::vector<std::size_t> index_;  // of a head in heads_, by its number; empty for one head
};

}  // namespace kvscope
