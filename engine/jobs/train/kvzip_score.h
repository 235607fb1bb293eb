#pragma once
// What KVzap learns to predict: how much a token matters to a model that repeats the text (KVzip+, arXiv 2601.07891).

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/jobs/tasks/repeat_sequences.h"
#include "engine/jobs/train/decoder_module.h"

namespace kvscope::engine {

/// The logarithm of KVzip+ of each token i of the first copy, [B, n_kv_heads, span.n] float32:
///
///     log s_i = max over query heads h of the group, queries j of the repetition of
///               log a_hji + log |W_o v_i|_h - log |x_j|
///
/// a: the dense softmax over all keys up to j, |W_o v_i|_h: what the value becomes in that query head's output, x_j: what enters
/// attention at j (heads.input). In logarithms throughout: a probability that float32 rounds to 0 still has one.
///
/// `heads` and `output_projection` are a layer's, `scale` that of q . k. Through the queries in chunks (0: usual_chunk(),
/// future_target.h): the largest temporary is [B, n_heads, chunk, T] float32. No gradients.
at::Tensor log_kvzip_plus(const DecoderModule::Heads& heads, const at::Tensor& output_projection, double scale,
                          const RepeatSpan& span, std::int64_t chunk = 0);

}  // namespace kvscope::engine
