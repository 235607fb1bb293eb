#pragma once
// One sequence of a decode step. Includes LibTorch; private to decode/.

#include "engine/decode/eviction/sequence_state.h"
#include "engine/decode/step_buffers.h"
#include "kernels/admit_step.h"

namespace kvscope::engine {

/// A sequence, and what the kernels want of its policy on the device.
class Lane {
 public:
  explicit Lane(SequenceState& sequence);

  SequenceState& sequence() const { return *sequence_; }
  /// Before a step: a page for the token, and tensors anew if the policy was changed.
  void prepare(std::int32_t position);
  /// After it: notes the slots that were used, and tells the methods.
  void note_step(std::int32_t position, const StepBuffers::Decided& decided);
  /// Behind it, for a scorer that scores between two steps.
  void score_newest(std::int32_t position, const kernels::RetainDecision* decisions) const;

  /// Scores of a layer's new token, unless admit_args() has the scorer in the same launch.
  void enqueue_score(int layer, int row, const StepBuffers& buffers, kernels::Place place) const;
  kernels::AdmitStepArgs admit_args(int layer, int row, const StepBuffers& buffers) const;
  /// Attention of a layer, and what the policy's methods do with it.
  void enqueue_attention(int layer, int row, const StepBuffers& buffers, kernels::Place place) const;
  /// What the step at `position` decided.
  void gather(int row, std::int32_t position, const StepBuffers& buffers, StepFacts& facts) const;

  /// Appends everything on which a captured step depends beside the buffers.
  void append_identity(std::vector<std::uintptr_t>& identity) const;

 private:
  SequenceState* sequence_;
  int policy_version_ = -1;
  std::vector<int> scored_layers_;  // all but those that the model itself makes local
  // Of each head, [n_layers, n_kv_heads]; undefined where all are alike.
  at::Tensor log_gamma_, head_threshold_;  // float32
  at::Tensor head_top_k_;                  // int32
};

}  // namespace kvscope::engine
