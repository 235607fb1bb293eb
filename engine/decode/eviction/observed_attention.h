#pragma once
// The attention that the newest queries paid to each token: SnapKV (Li et al., 2024) and WG-KV's variant (App. K).
// Includes LibTorch.

#include "engine/decode/eviction/mass_eviction.h"
#include "engine/decode/eviction/query_ring.h"

namespace kvscope::engine {

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

/// Probabilities [group, queries, keys] of one KV head: softmax over the keys at positions <= the query's.
at::Tensor causal_probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                                const at::Tensor& k_position);

/// A method that watches the newest queries.
class ObservedAttention : public AttentionMethod {
 public:
  ObservedAttention(SequenceState& state, ReadObservation read);
  void observe(int layer, const LayerTokens& tokens, std::int64_t first) override;
  void after_attention(const LayerStep& step) override { ring_.enqueue(step); }
  bool accepts(const PolicySpec& next) const override;

 protected:
  /// What each token of a layer is worth, as Score wants it.
  at::Tensor scores(int layer, const OrderedLayer& tokens, int n_tokens) const;
  const Observation& observation() const { return observation_; }

 private:
  ReadObservation read_;
  Observation observation_;
  QueryRing ring_;
};

/// A method of ObservedAttention that drops a share of every head's long-range tokens when the heads hold more than the
/// parameter `pool` of them in the mean.
std::unique_ptr<AttentionMethod> make_pool_of(SequenceState& state, ReadObservation read);

}  // namespace kvscope::engine
