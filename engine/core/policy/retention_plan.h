#pragma once
// What a policy does, as data: admission, eviction, selection (WG-KV section 2.2 has the taxonomy). The engine carries
// out any plan; a method that watches attention has its file in engine/decode/eviction besides.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/core/lifetime/head_rule.h"

namespace kvscope {

/// What a token is measured by.
enum class ScoreSource : std::uint8_t {
  none,
  gate,    // a trained scorer or gate, loaded beside the model
  random,  // uniform in [0, 1), from a hash of seed, layer, head and position
  future,  // what later queries will look at, from a dense pass before the run: the oracle's targets
  engine,  // the method's own, of a policy that the engine declares
};

/// Who leaves, one token a query and head at most, sinks apart. All but `least` are about the token that leaves the
/// window.
enum class Admission : std::uint8_t {
  keep,       // it stays
  drop,       // it goes
  threshold,  // it stays if its score reaches the threshold
  top_k,      // it competes for top_k places by its decayed score (KVpop eq. 4, 5)
  pooled,     // the same for the places of all heads together, between two queries (PooledTopK)
  least,  // every token enters; over the budget, that of least priority leaves, which the eviction method keeps. The
          // query has still seen it, so evict_at is the next position
};

/// Which of the kept tokens a query reads; nothing leaves (Quest).
struct Selection {
  int tokens = 0;  // in pages of 16; 0: all
  int window = 1;  // newest tokens that are always among them
  int dense_layers = 2;
  bool operator==(const Selection&) const = default;
};

/// How a budget is divided among heads. The heads' mean stays the policy's budget.
struct Allocation {
  enum class Kind : std::uint8_t {
    uniform,      // every head has the budget
    pyramid,      // less from layer to layer (PyramidKV)
    ada,          // in a layer, where the best scores are (AdaKV)
    ada_pyramid,  // the layers as pyramid has them, their heads as ada
  };
  Kind kind = Kind::uniform;
  double beta = 20;        // of pyramid: the last layer's places are the mean's share 1 / beta
  double safeguard = 0.2;  // of ada: the share of an even budget that no head can lose
  bool by_layer() const { return kind == Kind::pyramid || kind == Kind::ada_pyramid; }
  bool by_score() const { return kind == Kind::ada || kind == Kind::ada_pyramid; }
  bool operator==(const Allocation&) const = default;
};

struct RetentionPlan {
  ScoreSource source = ScoreSource::none;
  std::uint64_t seed = 0;                  // of ScoreSource::random
  int oracle_mass = 0, oracle_weight = 0;  // of ScoreSource::future: OracleMass and OracleWeight
  Admission admission = Admission::keep;
  float threshold = 0;
  bool strict = false;  // score > threshold instead of >=
  /// Of Admission::threshold: the share for which the threshold is solved (density.h), of all heads together or of each;
  /// 0: it is as it stands.
  double density = 0;
  bool density_per_head = false;
  /// Who evicts between two queries, by attention or of a pool: a name in engine/decode/eviction/method_list.cpp, which
  /// reads its own parameters from the spec; empty: nobody.
  std::string_view eviction;
  /// Of Admission::pooled: tokens between two cuts, prompt and answer alike; 0: before every query of the answer.
  int cut_interval = 0;
  Allocation allocation;  // of a plan with a budget
  int protect = 0;        // of Admission::least: newest tokens that never leave
  Selection selection;
  /// The prompt's queries see everything, and what leaves does so after it.
  bool dense_prefill = false;
  /// The rule of each head, where heads differ: head_rules() fills it where the model is known.
  HeadRules heads;

  RetentionGeometry of_head(RetentionGeometry geometry, int head) const {
    return heads.empty() ? geometry : with_rule(geometry, heads[static_cast<std::size_t>(head)]);
  }
  float threshold_of(int head) const {
    return heads.empty() ? threshold : heads[static_cast<std::size_t>(head)].threshold;
  }
  bool is_local(int head) const { return !heads.empty() && heads[static_cast<std::size_t>(head)].is_local(); }
  bool has_local_heads(Locality by) const {
    return std::ranges::any_of(heads, [by](const HeadRule& head) { return head.locality == by; });
  }
  /// The scores of a dense prompt are compared with the threshold when it has passed.
  bool cuts_after_prompt() const { return dense_prefill && admission == Admission::threshold; }
  /// Lifetimes follow from the scores of tokens alone, so that a recorded run can be asked what if.
  bool follows_from_scores() const { return eviction.empty() || is_pooled(); }
  /// What a head keeps depends on what the others have: a head by itself has no lifetimes.
  bool is_pooled() const { return admission == Admission::pooled; }
  bool keeps_everything() const {
    return admission == Admission::keep && !has_local_heads(Locality::policy) && eviction.empty();
  }
  /// Every head comes to hold as many tokens as its rule allows, and no more.
  bool has_fixed_budget() const {
    return admission == Admission::least ||
           (!has_local_heads(Locality::policy) && (admission == Admission::drop || admission == Admission::top_k));
  }
  bool operator==(const RetentionPlan&) const = default;
};

}  // namespace kvscope
