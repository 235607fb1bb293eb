#pragma once
// What a policy does, as data: admission, eviction, selection (WG-KV section 2.2 has the taxonomy). The engine carries
// out any plan, so a policy is nothing but its declaration.

#include <cstdint>
#include <vector>

#include "engine/core/lifetime/running_top_k.h"

namespace kvscope {

/// What a token is measured by.
enum class ScoreSource : std::uint8_t {
  none,
  gate,    // a trained scorer or gate, loaded beside the model
  random,  // uniform in [0, 1), from a hash of seed, layer, head and position
};

/// What becomes of the token that leaves the window, sinks apart.
enum class Admission : std::uint8_t {
  keep,       // it stays
  drop,       // it goes
  threshold,  // it stays if its score reaches the threshold
  top_k,      // it competes for top_k places by its decayed score (KVpop eq. 4, 5)
};

/// What leaves when the cache is over its budget after a query, one token a query and head. The query has still seen
/// it, so evict_at is the next position.
enum class StepEviction : std::uint8_t {
  none,
  last_attention,  // least attention from this query, mean over all query heads of the layer (TOVA)
  attention_sum,   // least attention summed over all queries so far, mean over the group (H2O)
};

/// Eviction of many tokens at once, between two queries: those of lowest score leave, evict_at is the next position.
struct Compression {
  enum class Kind : std::uint8_t { none, snapkv, expected_attention };
  Kind kind = Kind::none;
  int budget = 0;    // tokens a head keeps; 0: see pool
  int interval = 0;  // tokens between two compressions while decoding; 0: only after the prompt
  /// Global pool (WG-KV App. K): when heads hold more than this many long-range tokens each in the mean, every head
  /// drops `drop` of its own; 0: no pool.
  int pool = 0;
  double drop = 0.1;
  int n_sink = 0;
  int observe = 64;  // snapkv: newest queries whose attention is the score; they stay themselves
  int kernel_size = 5;
  bool max_pooling = false;  // else the mean
  bool group_max = false;    // else the mean over the group's query heads
  int n_future = 512;        // expected_attention: positions ahead
  bool covariance = true;
  bool value_norm = true;
  double epsilon = 0;
  bool operator==(const Compression&) const = default;
};

/// Which of the kept tokens a query reads; nothing leaves (Quest).
struct Selection {
  int tokens = 0;  // in pages of 16; 0: all
  int window = 1;  // newest tokens that are always among them
  int dense_layers = 2;
  bool operator==(const Selection&) const = default;
};

struct RetentionPlan {
  ScoreSource source = ScoreSource::none;
  std::uint64_t seed = 0;  // of ScoreSource::random
  Admission admission = Admission::keep;
  float threshold = 0;
  bool strict = false;  // score > threshold instead of >=
  /// Heads that keep sinks and window alone, [n_layers * n_kv_heads]; empty: none. Filled where the model is known.
  std::vector<std::uint8_t> local_heads;
  StepEviction eviction = StepEviction::none;
  int protect = 0;  // newest tokens that a step never evicts
  Compression compression;
  Selection selection;
  /// The prompt's queries see everything, and what leaves does so after it.
  bool dense_prefill = false;

  bool is_local(int head) const { return !local_heads.empty() && local_heads[static_cast<std::size_t>(head)] != 0; }
  /// Lifetimes follow from the scores of tokens alone, so that a recorded run can be asked what if.
  bool follows_from_scores() const {
    return eviction == StepEviction::none && compression.kind == Compression::Kind::none;
  }
  bool keeps_everything() const { return admission == Admission::keep && local_heads.empty() && follows_from_scores(); }
  /// Every head comes to hold as many tokens as geometry allows, and no more.
  bool has_fixed_budget() const {
    return eviction != StepEviction::none || (local_heads.empty() && compression.kind == Compression::Kind::none &&
                                              (admission == Admission::drop || admission == Admission::top_k));
  }
};

}  // namespace kvscope
