#pragma once
// What TOVA and H2O share: the attention of each query becomes the priority of the slots, and the kernel's rule `least`
// evicts by it. Includes LibTorch.

#include "engine/decode/eviction/mass_eviction.h"
#include "kernels/attention_mass.h"

namespace kvscope::engine {

class LeastAttention : public AttentionMethod {
 public:
  LeastAttention(SequenceState& state, kernels::MassRule rule) : AttentionMethod(state), rule_(rule) {}
  bool reads_lse() const override { return true; }
  void after_attention(const LayerStep& step) override;
  /// A dense prompt is thinned out to the budget.
  void after_prompt(int prompt_len, StepFacts* facts) override;

 protected:
  /// Of a layer's tokens when a dense prompt has passed, as Score wants it.
  virtual at::Tensor prompt_scores(int layer, const OrderedLayer& tokens, int prompt_len) const = 0;

 private:
  kernels::MassRule rule_;
};

}  // namespace kvscope::engine
