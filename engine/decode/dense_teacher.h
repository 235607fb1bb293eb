#pragma once
// The future-attention oracle's eyes: a dense pass over the run's own tokens, and the attention mass that each token
// receives after it has left the window (KVpop eq. 2, 3, 8). No LibTorch here.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/record/oracle_text.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// What the teacher saw: RunRecord::future_mass and the other kinds that its spec asks for.
struct FutureAttention {
  HeadSeries<float> mass;  // [n_layers][n_kv_heads][horizon]; NaN for tokens without a future query (t + window >= S)
  FutureKinds kinds;
};

/// Follows a run with the same tokens and nothing evicted (teacher forcing):
///
///     mean_t^(h) = 1 / N_t  sum over q in [t + window, S) of p_{q->t}^(h),    N_t = max(1, S - (t + window))
///     mass_t = max over the query heads h of the KV head's group
///
/// and root mean square and maximum over the same queries, and each times |W_o^(h) v_t| over the layer's mean |o W_o|,
/// as OracleSpec says; for agg=logmean it is exp(mean_h log(1e-6 + m^(h))) - 1e-6, so that the logarithm of 1e-6 + it is
/// the target either way. p is the teacher's own dense attention. Costs O(S) memory a head (its keys, values and sums)
/// and works in chunks, so that it can keep up with a run, and what a pass needs besides does not grow with S.
class DenseTeacher {
 public:
  /// capacity: the most tokens that will ever be given; window: of the policy that is judged. chunk: tokens of one pass at most, 0 for
  /// what suits the device; results do not depend on it but for the last bits.
  DenseTeacher(const LoadedModel& model, int capacity, int window, const OracleSpec& spec = {}, int chunk = 0);
  ~DenseTeacher();

  /// Takes the tokens that follow on those already seen. `stop` is asked before each chunk; returns false if it said
  /// so.
  /// kept: for lse=sparse, the lifetimes that the policy gave to the tokens so far; undecided ones count as kept.
  bool absorb(std::span<const std::int32_t> ids, const std::function<bool()>& stop = {},
              const LifetimeMap* kept = nullptr);
  /// Queries seen, S of the formula.
  int horizon() const;
  FutureAttention future() const;
  /// The mean alone.
  HeadSeries<float> future_mass() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope::engine
