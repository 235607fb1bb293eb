#pragma once
// The memory of a decode step, which stays where it is from step to step. Includes LibTorch; private to decode/.

#include <memory>

#include "engine/core/record/run_facts.h"
#include "engine/model/weights.h"
#include "engine/scorer/loaded_model.h"
#include "kernels/logit_summary.h"
#include "kernels/retain_policy.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

/// What the rows of a step, one a token, read and write: the model's activations, and a small block each way between
/// host and device. Row pointers are device pointers unless they say otherwise.
class StepBuffers {
 public:
  StepBuffers(const LoadedModel& model, int max_rows);

  /// attention_scratch has at least so many floats from here on.
  void reserve_attention_scratch(std::int64_t floats);

  // Into the step. On the host:
  void set_input(int row, std::int32_t id, std::int32_t position);
  const std::int32_t* id(int row) const { return inputs_.data_ptr<std::int32_t>() + row; }
  const std::int32_t* position(int row) const { return id(max_rows_ + row); }
  void enqueue_inputs(kernels::Place place);

  // Out of it; decisions and scores: [n_layers * n_kv_heads].
  struct Decided {
    kernels::RetainDecision* decisions;
    float* scores;
    kernels::LogitSummary* summary;
  };
  Decided decided(int row) const { return decided(outputs_.data_ptr<std::int32_t>(), row); }
  void enqueue_outputs(int n_rows, kernels::Place place);
  /// The same on the host when the step is over.
  Decided decided_on_host(int row) const { return decided(host_outputs_data_, row); }

  // [rows, ...]: x and logits float32, lse [rows, n_heads] float32, the others in the model's dtype.
  at::Tensor x, qkv, q, o, activation, logits, lse;
  at::Tensor branch;  // [rows, hidden] float32: products that a norm follows; undefined in a model without
  // [rows, hidden] in the model's dtype: x on its way into a product without a norm before it; undefined likewise
  at::Tensor rounded;
  at::Tensor normed;  // [rows, hidden] in the model's dtype: scratch of products with a norm
  // Of a model with experts, otherwise empty: the router's logits [rows, n] float32; those that each row goes through
  // [rows, per_token], int32, with their weights, float32; and their activations [rows, per_token * intermediate].
  at::Tensor router_logits, chosen_experts, expert_weights, expert_activation;
  at::Tensor attention_scratch, summary_scratch;  // [rows, ...], zeros between steps

 private:
  Decided decided(std::int32_t* outputs, int row) const;

  int max_rows_;
  std::int64_t n_heads_in_all_;  // layers x KV heads
  std::int64_t words_;           // int32 of a row of outputs_
  at::Tensor inputs_;            // [2, rows] int32: ids, positions
  at::Tensor outputs_;           // [rows, words] int32: decisions, scores (bits of float32), summary
  std::unique_ptr<kernels::PinnedMemory> host_inputs_, host_outputs_;  // CUDA only
  std::int32_t *host_inputs_data_, *host_outputs_data_;
};

/// Row `row` of [rows, n], without making a tensor of it: this runs thrice a layer and token.
inline void* row_of_tensor(const at::Tensor& tensor, int row) {
  return static_cast<char*>(tensor.data_ptr()) +
         row * tensor.stride(0) * static_cast<std::int64_t>(tensor.element_size());
}

inline const void* data_or_null(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

}  // namespace kvscope::engine
