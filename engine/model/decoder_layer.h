#pragma once
// The forward pass of one layer, written once, but for attention itself: there the uses of a model differ.
//
//     q, k, v = W_q n, W_k n, W_v n (+ bias)                n = norm(x)
//     q, k    = rotate(norm(q)), rotate(norm(k))            norms per head or over all heads, where the layer has them (qk_norm)
//     h       = x + (norm) (W_o attention(q, k, v) (+ bias))  the norm where the layer has norms around or after
//     y       = h + (norm) W_down (act(W_gate n) W_up n)    n = norm(h)
//
// A layer with norms after attention and MLP alone has n = x and n = h.
//
// After Qwen3 (Yang et al., 2025), Qwen2 (Yang et al., 2024), Llama 3 (Dubey et al., 2024), Gemma 2 (Gemma Team, 2024),
// OLMo 2 (OLMo Team, 2024) and gpt-oss (OpenAI, 2025); in transformers: modeling_qwen3.py, modeling_qwen2.py,
// modeling_llama.py, modeling_gemma2.py, modeling_olmo2.py, modeling_gpt_oss.py.
//
// `Ops` computes. There are three: whole tensors of a prompt (transformer.cpp), a few launches for one token of a decode
// step (decode/decode_step.cpp), and operations with gradients (jobs/train/decoder_module.cpp). An operation may return
// a description instead of a result and leave the work to the one that takes it: so a decode step joins a norm to the
// product after it, and a product to the addition after it.
//
//     weights()                      of the layer: input_norm, post_norm, down, attention_out_norm, mlp_out_norm
//     residual()                     the residual stream x
//     norm(x, weight)                of a row, or of what project() or project_out() gave
//     without_norm(x)                the same row as a product takes it
//     project_heads(n) -> heads      q, k and v
//     norm_heads(heads), rotate(heads)
//     project_out(attended)          W_o attended (+ bias)
//     project(x, matrix)             W x
//     gated(n)                       act(W_gate n) W_up n
//     experts(n)                     of a layer with experts: their weighted sum (expert_config.h), in the place of W_down gated(n)
//     add(branch)                    x += branch

#include "engine/core/files/weights/model_family.h"

namespace kvscope::engine {

/// What enters attention or the MLP.
template <class Ops, class Weight>
auto entering(const LayerConfig& layer, Ops& ops, const Weight& norm_weight) {
  if (layer.norms == NormPlacement::after) return ops.without_norm(ops.residual());
  return ops.norm(ops.residual(), norm_weight);
}

/// From the residual stream to heads that attention can read.
template <class Ops>
auto before_attention(const LayerConfig& layer, Ops& ops) {
  auto heads = ops.project_heads(entering(layer, ops, ops.weights().input_norm));
  if (layer.qk_norm != QkNorm::none) ops.norm_heads(heads);
  ops.rotate(heads);
  return heads;
}

/// From `attended`, what attention gave, to the residual stream of the next layer.
template <class Ops, class Attended>
void after_attention(const LayerConfig& layer, Ops& ops, const Attended& attended) {
  const auto& weights = ops.weights();
  const auto add = [&](const auto& branch, const auto& norm_weight) {
    if (layer.norms != NormPlacement::before) return ops.add(ops.norm(branch, norm_weight));
    ops.add(branch);
  };
  add(ops.project_out(attended), weights.attention_out_norm);
  const auto input = entering(layer, ops, weights.post_norm);
  if (layer.mlp == MlpKind::experts) return ops.add(ops.experts(input));  // check_layers(): no norm after them
  add(ops.project(ops.gated(input), weights.down), weights.mlp_out_norm);
}

}  // namespace kvscope::engine
