#pragma once
// What each KV head keeps. One table serves the plan, the record, the messages, the trace and the kernels.

#include <cstdint>
#include <vector>

#include "engine/core/lifetime/running_top_k.h"

namespace kvscope {

/// Who made a head local: a local head keeps its sinks and window alone.
enum class Locality : std::uint8_t {
  global,  // it is not local
  policy,  // the policy chose it (DuoAttention, hybrids)
  model,   // the model's layer attends to its window alone
};

/// The rule of one KV head: sinks and window always stay, and top_k places are for the other tokens.
struct HeadRule {
  std::int32_t n_sink = 0;  // first tokens
  std::int32_t window = 0;  // newest tokens, the query's own included
  std::int32_t top_k = 0;   // places for the others, beside sinks and window
  float log_gamma = 0;      // <= 0; decay of the effective score per stride (KVpop eq. 21), 0 for none
  float threshold = 0;      // least score, of a policy that admits by one
  Locality locality = Locality::global;

  bool is_local() const { return locality != Locality::global; }
  int budget() const { return n_sink + window + top_k; }
  bool operator==(const HeadRule&) const = default;
};

/// [n_layers * n_kv_heads], or empty where all heads have the one rule that the policy's parameters give.
using HeadRules = std::vector<HeadRule>;

/// The rule of all heads that have none of their own.
inline HeadRule rule_of(const RetentionGeometry& geometry, float threshold = 0) {
  return {.n_sink = geometry.n_sink,
          .window = geometry.window,
          .top_k = geometry.top_k,
          .log_gamma = static_cast<float>(geometry.log_gamma),
          .threshold = threshold};
}

/// `geometry` with what the rule says in its place.
inline RetentionGeometry with_rule(RetentionGeometry geometry, const HeadRule& rule) {
  geometry.n_sink = rule.n_sink;
  geometry.window = rule.window;
  geometry.top_k = rule.top_k;
  if (rule.log_gamma != static_cast<float>(geometry.log_gamma)) geometry.log_gamma = rule.log_gamma;
  return geometry;
}

}  // namespace kvscope
