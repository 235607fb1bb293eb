#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// Which experts each token goes through, and with what weights: the n_chosen greatest of its logits; of equal ones the
/// lowest index goes first, and a NaN goes last.
///
///     p = softmax(logits of a token)        weight = p of each chosen expert, over their sum if normalised
///
/// Chosen by the logits themselves, in whose order softmax leaves them: three versions choose alike to the last bit.
struct RouteExpertsArgs {
  const float* logits;   // [n_tokens, n_experts]
  std::int32_t* expert;  // [n_tokens, n_chosen] indices, ascending
  float* weight;         // [n_tokens, n_chosen]
  int n_tokens;
  int n_experts;  // 1 ... kMaxRoutedExperts
  int n_chosen;   // 1 ... n_experts
  bool normalised;
};

inline constexpr int kMaxRoutedExperts = 1024;

KVSCOPE_OPERATION(route_experts, RouteExpertsArgs);

}  // namespace kvscope::kernels
