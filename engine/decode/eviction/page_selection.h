#pragma once
// Which pages of its cache a decode step reads (Quest): bounds, choice and what was chosen. Includes LibTorch; private
// to generate/.

#include <memory>

#include "engine/core/record/run_facts.h"
#include "engine/decode/sequence_state.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

/// The buffers of one sequence's selection. Nothing leaves the cache by it.
class PageSelection {
 public:
  explicit PageSelection(SequenceState& sequence);

  /// Brings the layer's bounds up to the token that `decision` has placed, chooses the pages for q [n_heads, head_dim],
  /// and returns the cache as attention is to see it.
  kernels::SlotCacheView select(int layer, const void* q, const kernels::RetainDecision* decision,
                                const std::int32_t* position, kernels::Stream stream);
  /// The layer reads everything.
  bool is_dense(int layer) const { return layer < sequence_.policy.plan().selection.dense_layers; }
  /// Ends a step: what was chosen goes to the host.
  void enqueue_copy(kernels::Stream stream);
  /// After it: appends what every head that chose did read to facts.reads.
  void gather(std::int32_t q, StepFacts& facts) const;

 private:
  bool is_cuda() const { return selected_.is_cuda(); }

  SequenceState& sequence_;
  int n_pages_, max_selected_;
  at::Tensor rank_, page_table_, slot_position_, n_slots_;  // of one layer at a time
  at::Tensor selected_;                                     // [n_layers, n_kv_heads, max_selected_] int32
  std::unique_ptr<kernels::PinnedMemory> host_;             // CUDA only
};

/// Bounds of all pages, after a prefill or whenever the cache was made anew.
void read_page_bounds(SequenceState& sequence);

}  // namespace kvscope::engine
