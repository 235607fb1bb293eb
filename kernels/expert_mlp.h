#pragma once
#include "kernels/glu.h"
#include "kernels/operation.h"

namespace kvscope::kernels {

/// The experts of a decode step: for each token the gated MLPs that route_experts chose, added to the residual stream.
///
///     n = x / sqrt(mean(x^2) + eps) * norm_weight           rounded to dtype
///     a_i = gate(W_gate n, W_up n)                           of expert[i], rounded to dtype; silu(g) u, or as glu.h has it
///     out += sum_i weight[i] W_down a_i                      i ascending, float32
///
/// A product has its expert's bias added where there are biases.
///
/// Only the weights of chosen experts are read, once for each token. A token's result does not depend on how many tokens
/// stand beside it, bit for bit.
struct ExpertMlpArgs {
  const float* x;              // [n_tokens, dim], the residual stream
  const void* norm_weight;     // [dim] dtype
  const void* gate_up;         // [n_experts, 2 ff, dim] dtype: of each expert gate rows, then up rows
  const void* down;            // [n_experts, dim, ff] dtype
  const std::int32_t* expert;  // [n_tokens, n_chosen] in [0, n_experts); read on the device
  const float* weight;         // [n_tokens, n_chosen]
  void* activation;            // [n_tokens, n_chosen, ff] dtype, filled
  float* out;                  // [n_tokens, dim]; may be x
  int n_tokens;                // 1 ... kMaxExpertTokens
  int n_chosen;                // 1 ... kMaxChosenExperts
  int dim, ff;                 // 1 ... kMaxExpertDim, kMaxExpertFf
  float eps;
  DType dtype;
  GluActivation gate = GluActivation::silu;
  const void* gate_up_bias = nullptr;  // [n_experts, 2 ff] dtype, or null
  const void* down_bias = nullptr;     // [n_experts, dim] dtype, or null
};

inline constexpr int kMaxExpertTokens = 512, kMaxChosenExperts = 64;
/// One token's input in float32 has to fit into the shared memory of a multiprocessor.
inline constexpr int kMaxExpertDim = 1 << 14, kMaxExpertFf = 56 * 1024;

/// Two launches on CUDA.
KVSCOPE_OPERATION(expert_mlp, ExpertMlpArgs);

}  // namespace kvscope::kernels
