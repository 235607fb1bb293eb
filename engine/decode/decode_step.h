#pragma once
// One token each of one or several sequences through the model and their policies, without LibTorch's operators: the
// project's own kernels on buffers that stay where they are, on CUDA as one captured graph. Includes LibTorch; private
// to generate/.

#include <span>

#include "engine/decode/eviction/page_selection.h"
#include "kernels/admit_step.h"
#include "kernels/logit_summary.h"
#include "kernels/project.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

/// One sequence's part in a step: token `id` at `position`, the number of tokens before it.
struct DecodeInput {
  int sequence;  // index in what DecodeStep was made for
  std::int32_t id, position;
};

/// The decode half of one sequence, or of several that share every read of the weights. Nothing waits for the device
/// inside a step; what was decided is read when it is over. A sequence gets the same bits alone and among others: the
/// products do not depend on how many tokens share them (kernels/project.h), and the rest is done for each by itself.
class DecodeStep {
 public:
  /// Sequences of one model; they must outlive this.
  explicit DecodeStep(std::vector<SequenceState*> sequences);

  /// Passes one token of each given sequence (at most one each) through the model and takes it into its cache. Returns
  /// when the device is done.
  void run(std::span<const DecodeInput> inputs);

  /// Of the last run() with this sequence: greatest logit and normaliser.
  const kernels::LogitSummary& summary(int sequence) const;
  /// Logits of its next token after the last run(), [vocab], copied from the device if they are there.
  std::vector<float> logits(int sequence) const;
  /// What the last run() decided: lifetimes, contests and scores.
  void gather(int sequence, StepFacts& facts) const;

 private:
  const LoadedModel& model() const { return sequences_.front()->model; }
  bool is_cuda() const { return model().weights().device.is_cuda(); }
  int n_rows() const { return static_cast<int>(inputs_of_run_.size()); }
  std::size_t n_heads_in_all() const;  // layers x KV heads
  std::size_t words_per_row() const;
  int row_of(int sequence) const;
  SequenceState& sequence_of(int row) const { return *sequences_[inputs_of_run_[row].sequence]; }
  std::int32_t* device_outputs(int row) const;
  const std::int32_t* host_outputs(int row) const { return host_outputs_data_ + row * words_per_row(); }

  void enqueue(kernels::Place place);
  void enqueue_layer(int layer, kernels::Place place);
  /// From the QKV product of one row to its attention, under the row's policy.
  void enqueue_score(int layer, int row, kernels::Place place);
  void enqueue_attention(int layer, int row, kernels::Place place);
  /// All rows of args.x through one matrix, as many at a time as the kernel takes; a row of args.out has
  /// `out_elements`.
  void enqueue_project(kernels::ProjectArgs args, std::int64_t out_elements, kernels::Place place);
  kernels::AdmitStepArgs admit_args(int layer, int row);
  const kernels::RetainDecision* decisions(int layer, int row) const;
  float* scores(int layer, int row) const;
  const std::int32_t* position_of(int row) const;
  void run_graph();

  std::vector<SequenceState*> sequences_;
  std::vector<DecodeInput> inputs_of_run_;  // row r of every buffer belongs to inputs_of_run_[r]
  at::Tensor x_, qkv_, q_, o_, activation_,
      logits_;                                      // [sequences, ...]: float32 x_ and logits_, else the model's dtype
  at::Tensor attention_scratch_, summary_scratch_;  // zeros between steps
  at::Tensor inputs_;                               // [2, sequences] int32: ids, positions
  at::Tensor outputs_;  // [sequences, words] int32: decisions, scores (bits of float32), summary
  /// Of a sequence, what the kernels want of its policy on the device; made again when the policy was changed.
  struct PolicyTensors {
    int version = -1;
    at::Tensor log_gamma;       // [n_kv_heads] float32, undefined without decay
    at::Tensor head_threshold;  // [n_layers, n_kv_heads] float32, undefined unless heads differ
  };
  void update_policy(int sequence);

  std::vector<PolicyTensors> policy_;
  std::vector<std::unique_ptr<PageSelection>> selection_;  // null for a policy that reads everything
  at::Tensor lse_;                                         // [sequences, n_heads] float32
  kernels::StepGraph graph_;
  std::vector<std::uintptr_t> captured_for_;  // sequences, the pools they have, the version of their policies
  std::unique_ptr<kernels::PinnedMemory> host_inputs_, host_outputs_;  // CUDA only
  std::int32_t* host_inputs_data_;
  const std::int32_t* host_outputs_data_;
};

}  // namespace kvscope::engine
