#pragma once
#include "kernels/host_device.h"
#include "kernels/operation.h"

namespace kvscope::kernels {

/// What becomes of a row's product.
enum class Epilogue : std::int32_t {
  store = 0,    // out[t][r] = y_r + bias_r                      [n_tokens, n_rows], dtype
  add = 1,      // out[t][r] += y_r + bias_r                     [n_tokens, n_rows], float32: the residual stream
  swiglu = 2,   // out[t][r] = silu(y_r) y_{r + n_rows / 2}      [n_tokens, n_rows / 2], dtype; gate rows, then up rows
  logits = 3,   // out[t][r] = y_r + bias_r                      [n_tokens, n_rows], float32
  silu = 4,     // out[t][r] = silu(y_r + bias_r)                [n_tokens, n_rows], dtype
  gelu = 5,     // out[t][r] = gelu(y_r + bias_r)                likewise; the one with erf
  sigmoid = 6,  // out[t][r] = 1 / (1 + exp(-y_r - bias_r))     [n_tokens, n_rows], float32: a gate's utility
  geglu = 7,    // out[t][r] = gelu_tanh(y_r) y_{r + n_rows / 2}, as swiglu; gelu_tanh: glu.h
};

/// Whether `out` is float32 whatever the dtype.
constexpr bool writes_floats(Epilogue epilogue) {
  return epilogue == Epilogue::add || epilogue == Epilogue::logits || epilogue == Epilogue::sigmoid;
}

/// Whether half of the rows are gates of the other half.
KVSCOPE_HOST_DEVICE constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::swiglu || epilogue == Epilogue::geglu;
}

/// A matrix times a few vectors, with the norm before it and what follows it: the linear layers of a decode step.
///
///     y_r = sum_c weight[r][c] n_c,    n = x, or x / sqrt(mean(x^2) + eps) * (norm_offset + norm_weight)
///
/// The residual stream is float32 whatever the dtype: x is float32 where there is a norm and `dtype` where there is
/// none. n is rounded to `dtype` (as transformers rounds it); products are summed in float32. A token's result does not
/// depend on how many tokens stand beside it, bit for bit: a batch gives what single runs give.
struct ProjectArgs {
  const void* weight;                 // [n_rows, dim], dtype
  const void* bias = nullptr;         // [n_rows] dtype, or null; not of swiglu and geglu
  const void* x;                      // [n_tokens, dim]
  const void* norm_weight = nullptr;  // [dim] dtype, or null
  void* out;
  std::int64_t n_rows;
  int dim;           // 1 ... kMaxProjectDim
  int n_tokens = 1;  // 1 ... kMaxProjectTokens
  float eps = 0;     // of the norm
  float norm_offset = 0;
  Epilogue epilogue;
  DType dtype;
  // CUDA only: [n_tokens, dim] dtype, where the normed rows of several tokens go. Without it each block norms them all, and
  // more than eight tokens read the weights again.
  void* scratch = nullptr;
};

/// Whether an epilogue takes a bias.
constexpr bool takes_bias(Epilogue epilogue) { return !is_gated(epilogue); }

/// Tokens that one pass over the weights serves.
inline constexpr int kMaxProjectTokens = 32;

/// Columns at most: one token's inputs in float32 have to fit into the shared memory of a multiprocessor.
inline constexpr int kMaxProjectDim = 56 * 1024;

/// One launch on CUDA, two for several tokens with a norm.
KVSCOPE_OPERATION(project, ProjectArgs);

}  // namespace kvscope::kernels
