#pragma once
// A method that watches the attention of a sequence, or the scores of all its heads, and acts on its cache: evicts, or
// chooses what is read. Includes LibTorch.

#include <memory>
#include <vector>

#include "engine/core/policy/policy.h"
#include "engine/core/record/run_facts.h"
#include "engine/model/transformer.h"
#include "kernels/operation.h"
#include "kernels/retain_policy.h"
#include "kernels/slot_cache.h"

namespace kvscope::engine {

struct SequenceState;

/// One sequence's part in one layer of a decode step, all on the device.
struct LayerStep {
  int layer;
  const void* q;                            // [n_heads, head_dim], rotated
  const float* lse;                         // [n_heads], written for a method that reads_lse()
  const std::int32_t* position;             // of the new token
  const kernels::RetainDecision* decision;  // [n_kv_heads]
  kernels::Place place;
};

/// One object a sequence, which owns what the method has to remember. A method has a file, and a line in
/// method_list.cpp; it overrides what it needs. What it enqueues becomes part of a CUDA graph: it must not allocate,
/// wait or depend on numbers of the host that change from step to step.
class AttentionMethod {
 public:
  explicit AttentionMethod(SequenceState& state) : state_(state) {}
  virtual ~AttentionMethod() = default;

  // The prompt, chunk by chunk and layer by layer.
  /// Queries, keys and values of the chunk that begins at position `first`.
  virtual void observe(int /*layer*/, const LayerTokens&, std::int64_t /*first*/) {}
  /// Whether observe() wants queries before their rotation too.
  virtual bool reads_unrotated() const { return false; }
  /// Of a dense prompt, or a chunk of which nothing leaves, for a method that reads_prompt_attention(): queries q [n, n_heads, head_dim] over
  /// keys k [n_kv_heads, n_before + n, head_dim] of the slots in their order, the queries' own last; lse: [n_heads, n].
  virtual void observe_attention(int /*layer*/, const at::Tensor& /*q*/, const at::Tensor& /*k*/,
                                 const at::Tensor& /*lse*/, std::int64_t /*n_before*/) {}
  virtual bool reads_prompt_attention() const { return false; }
  /// Of a prompt whose tokens are scored: [n_kv_heads, n] on the host, column i of token first + i; below 0 it is nobody's.
  virtual void observe_scores(int /*layer*/, const at::Tensor& /*scores*/, std::int64_t /*first*/) {}
  /// The prompt has passed: what is to leave leaves. facts here and below: null to note nothing.
  virtual void after_prompt(int /*prompt_len*/, StepFacts* /*facts*/) {}

  // A decode step, layer by layer: launches at the step's place.
  virtual bool reads_lse() const { return false; }
  /// The cache as the layer's attention is to see it.
  virtual kernels::SlotCacheView select(const LayerStep&, const kernels::SlotCacheView& cache) { return cache; }
  virtual void after_attention(const LayerStep&) {}
  /// Behind the last layer.
  virtual void end_step(kernels::Place) {}

  // Between two steps, on the host.
  /// The step at `position` is over; decisions, and scores of token `position` - delay: [n_layers * n_kv_heads].
  virtual void observe_step(std::int32_t /*position*/, const kernels::RetainDecision* /*decisions*/,
                            const float* /*scores*/) {}
  /// The query at position n_tokens comes next, and those of its chunk, but not that of a prompt that is dense: what they
  /// are not to see leaves. Nobody comes behind a run's last token.
  virtual void before_queries(int /*n_tokens*/, StepFacts* /*facts*/) {}
  /// What query q did, beside lifetimes.
  virtual void gather(std::int32_t /*q*/, StepFacts&) const {}
  /// The answer has grown to n_tokens: what is to leave leaves.
  virtual void after_step(int /*prompt_len*/, int /*n_tokens*/, StepFacts* /*facts*/) {}
  /// Of a text that is under the policy from its first token on: n_tokens have passed, a whole number of chunks or the
  /// last one's rest, and what is to leave by this method leaves. Neither after_prompt() nor after_step() is called
  /// then. Every method has to say what it does, so that none is dense in silence.
  virtual void after_chunk(int n_tokens, StepFacts* facts) = 0;
  /// The cache was made anew, with fewer tokens or other sizes.
  virtual void cache_changed() {}
  /// Whether a run may go on with these parameters; those of the plan and the geometry are seen to.
  virtual bool accepts(const PolicySpec& /*next*/) const { return true; }

 protected:
  SequenceState& state_;
};

/// What the sequence's policy asks for.
std::vector<std::unique_ptr<AttentionMethod>> make_methods(SequenceState& state);

}  // namespace kvscope::engine
