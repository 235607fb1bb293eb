#pragma once
// What methods remember of the attention that queries paid: the last queries themselves, or a sum in the priorities of
// the slots. Includes LibTorch.

#include "engine/decode/eviction/mass_eviction.h"
#include "kernels/attention_mass.h"

namespace kvscope::engine {

/// Rotated queries, that of position p in row p % n of [n_layers, n, n_heads * head_dim].
class QueryRing {
 public:
  QueryRing(const SequenceState& state, int n_rows);

  /// The newest of q [n, n_heads, head_dim], at positions first ... first + n - 1.
  void store(int layer, const at::Tensor& q, std::int64_t first);
  /// That of a decode step.
  void enqueue(const LayerStep& step);

  struct Queries {
    at::Tensor q, position;  // [layers * n_kv_heads, group, n, head_dim] float32, [n]
  };
  /// The newest n of n_tokens in these layers [layers] int64, or as many as there are; the oldest first.
  Queries newest(const at::Tensor& layer, std::int64_t n, std::int64_t n_tokens) const;

 private:
  int n_heads_, n_kv_heads_, head_dim_;
  at::Tensor rows_;
};

/// What TOVA and H2O share: the attention of each query becomes the priority of the slots, and the kernel's rule `least`
/// evicts by it.
class LeastAttention : public AttentionMethod {
 public:
  LeastAttention(SequenceState& state, kernels::MassRule rule) : AttentionMethod(state), rule_(rule) {}
  bool reads_lse() const override { return true; }
  void after_attention(const LayerStep& step) override;
  /// A dense prompt is thinned out to the budget.
  void after_prompt(int prompt_len, StepFacts* facts) override;
  /// Token by token the kernel evicts; of a chunk the least by its last query, or by the sum up to it, go together.
  void after_chunk(int n_tokens, StepFacts* facts) override;

 protected:
  /// Of the tokens when a dense prompt, or a chunk at once, has passed.
  virtual Score prompt_score(int n_tokens) const = 0;
  /// Whether the text passes in chunks, not step by step: known with the first.
  bool in_chunks_ = false;

 private:
  kernels::MassRule rule_;
};

/// The attention that the newest queries paid to each token: SnapKV (Li et al., 2024) and WG-KV's variant (App. K).
struct Observation {
  int n_queries = 64;  // the newest; they are not scored themselves
  int kernel_size = 5;
  bool max_pooling = false;  // over neighbours; else the mean
  bool group_max = false;    // over the group's query heads; else the mean
  bool operator==(const Observation&) const = default;
};
/// As a policy's parameters say it.
using ReadObservation = Observation (*)(const PolicySpec& spec, const RetentionGeometry& geometry);
Observation snapkv_observation(const PolicySpec& spec, const RetentionGeometry& geometry);
Observation pool_observation(const PolicySpec& spec, const RetentionGeometry& geometry);

/// AttentionScores of the query heads of some layers that are alike, one layer's after the other's.
AttentionScores scores_of(const SequenceState& state, const std::vector<int>& layers);

/// Probabilities [rows, group, queries, keys] of KV heads, a row each: softmax over the keys at positions <= the query's. q [rows, group,
/// queries, head_dim] float32, k [rows, keys, head_dim], k_position [rows, keys]. `scores`: of the rows' query heads.
at::Tensor causal_probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                                const at::Tensor& k_position, const AttentionScores& scores);

/// A method that watches the newest queries.
class ObservedAttention : public AttentionMethod {
 public:
  ObservedAttention(SequenceState& state, ReadObservation read);
  void observe(int layer, const LayerTokens& tokens, std::int64_t first) override;
  void after_attention(const LayerStep& step) override { ring_.enqueue(step); }
  void observe_step(std::int32_t position, const kernels::RetainDecision* decisions, const float*) override {
    state_.order.note_step(position, decisions);
  }
  bool accepts(const PolicySpec& next) const override;

 protected:
  /// By this attention, after n_tokens.
  Score score(int n_tokens) const;
  const Observation& observation() const { return observation_; }

 private:
  at::Tensor scores(const OrderedTokens& tokens, int n_tokens) const;

  ReadObservation read_;
  Observation observation_;
  QueryRing ring_;
};

/// A method of ObservedAttention that drops a share of every head's long-range tokens when the heads hold more than the
/// parameter `pool` of them in the mean.
std::unique_ptr<AttentionMethod> make_pool_of(SequenceState& state, ReadObservation read);

}  // namespace kvscope::engine
