#pragma once
// One token through the model and the policy, without LibTorch's operators: the project's own kernels on buffers that
// stay where they are, on CUDA as one captured graph. Includes LibTorch; private to generate/.

#include <span>

#include "engine/generate/attention_sites.h"
#include "kernels/admit_step.h"
#include "kernels/logit_summary.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

/// The decode half of a sequence. Nothing waits for the device inside a step; what was decided is read when it is over.
class DecodeStep {
 public:
  explicit DecodeStep(SequenceState& state);

  /// Passes token `id` at `position` (the number of tokens before it) through the model and takes it into the cache.
  /// Returns when the device is done. Throws Error (internal) for logits that are not finite.
  void run(std::int32_t id, std::int32_t position);

  /// Of the last run(): greatest logit and normaliser.
  const kernels::LogitSummary& summary() const { return *summary_; }
  /// Logits of the next token after the last run(), [vocab], copied from the device if they are there.
  std::vector<float> logits() const;
  /// What the last run() decided: lifetimes, contests and scores.
  void gather(protocol::StepFacts& facts) const;

 private:
  struct Outputs;  // where decisions, scores and summary lie for the host
  void enqueue(kernels::Stream stream);
  void enqueue_layer(int layer, kernels::Stream stream);
  kernels::AdmitStepArgs admit_args(int layer);
  bool is_cuda() const { return state_.model.weights().device.is_cuda(); }
  std::size_t n_heads_in_all() const;

  SequenceState& state_;
  std::int32_t position_ = -1;
  at::Tensor x_, qkv_, q_, o_, activation_, logits_;  // one token's: float32 x_ and logits_, else the model's dtype
  at::Tensor attention_scratch_, summary_scratch_;    // zeros between steps
  at::Tensor inputs_;                                 // [2] int32: id, position
  at::Tensor outputs_;    // [n_layers * n_kv_heads * 8 + 4] int32: decisions, scores (bits of float32), summary
  at::Tensor log_gamma_;  // [n_kv_heads] float32, undefined without decay
  kernels::StepGraph graph_;
  const void* captured_pool_ = nullptr;  // the cache's pool may move when it grows: then the graph is captured again
  std::unique_ptr<kernels::PinnedMemory> host_inputs_, host_outputs_;  // CUDA only
  const kernels::RetainDecision* decisions_;                           // on the host
  const float* scores_;
  const kernels::LogitSummary* summary_;
};

}  // namespace kvscope::engine
