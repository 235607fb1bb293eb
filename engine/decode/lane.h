#pragma once
// One sequence of a decode step. Includes LibTorch; private to decode/.

#include "engine/decode/eviction/sequence_state.h"
#include "engine/decode/step_buffers.h"
#include "kernels/admit_step.h"
#include "kernels/decode_attention.h"
#include "kernels/gate_score.h"

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
  /// After the step, for a scorer that scores between two steps.
  void score_newest(std::int32_t position, const kernels::RetainDecision* decisions) const;

  /// Scores of a layer's new token, unless admit_args() has the scorer in the same launch. A scorer that is one kernel adds
  /// what it is given to `gates`, for a launch of all sequences.
  void enqueue_score(int layer, int row, const StepBuffers& buffers, kernels::Place place,
                     std::vector<kernels::GateScoreArgs>& gates) const;
  kernels::AdmitStepArgs admit_args(int layer, int row, const StepBuffers& buffers) const;
  /// Attention of a layer, of what the policy's methods select.
  kernels::DecodeAttentionArgs attention_args(int layer, int row, const StepBuffers& buffers,
                                              kernels::Place place) const;
  /// What the methods do with it.
  void after_attention(int layer, int row, const StepBuffers& buffers, kernels::Place place) const;
  /// What the step at `position` decided.
  void gather(int row, std::int32_t position, const StepBuffers& buffers, StepFacts& facts) const;

  /// Appends everything on which a captured step depends beside the buffers.
  void append_identity(std::vector<std::uintptr_t>& identity) const;

 private:
  LayerStep layer_step(int layer, int row, const StepBuffers& buffers, kernels::Place place) const;

  SequenceState* sequence_;
  int policy_version_ = -1;
  std::vector<int> scored_layers_;  // all but those that the model itself makes local
  // Of each head, [n_layers, n_kv_heads]; undefined where all are alike.
  at::Tensor log_gamma_, head_threshold_;  // float32
  at::Tensor head_top_k_;                  // int32
};

}  // namespace kvscope::engine
