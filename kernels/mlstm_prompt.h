#pragma once
#include "kernels/admit_step.h"

namespace kvscope::kernels {

/// Most tokens of one mlstm_prompt().
inline constexpr std::int64_t kMlstmPromptTokens = 2048;

/// The delayed mLSTM scorer of KVpop over n tokens of a prompt, for every KV head: what n times kernels::admit_step would
/// give, with `scorer` (weights and memory; admit_step.h) as it is after the last of them,
///
///     score_{first + i - delay}  in column i; NaN before the first token
///
/// On CUDA in blocks of 128 tokens: within a block the quadratic form, between blocks the stabilised state (the chunkwise
/// form of xLSTM, Beck et al., 2024). All float32; sums go in another order than token by token. On the CPU token by token;
/// the engine has products of whole blocks there (engine/scorer/kvpop_scorer.cpp).
struct MlstmPromptArgs {
  MlstmScorerView scorer;
  const void* k;  // [n, n_kv_heads, head_dim] post-RoPE, 16-byte aligned; rows as far apart as the strides say
  const void* v;
  std::int64_t k_stride;  // elements from a token to the next: at least n_kv_heads * head_dim, a multiple of 8
  std::int64_t v_stride;
  std::int64_t first;  // position of the first token
  std::int64_t n;      // 0 ... kMlstmPromptTokens
  float* score;        // [n_kv_heads, n] out
  float* scratch;      // mlstm_prompt_scratch_floats(), 16-byte aligned; CUDA only
  int n_kv_heads;
  int head_dim;  // CUDA: 64 or 128
  DType dtype;   // of k and v
};

/// Whether CUDA has it for heads of so many channels.
constexpr bool has_mlstm_prompt(int head_dim) { return head_dim == 64 || head_dim == 128; }

std::int64_t mlstm_prompt_scratch_floats(const MlstmPromptArgs& args);

KVSCOPE_OPERATION(mlstm_prompt, MlstmPromptArgs);

}  // namespace kvscope::kernels
