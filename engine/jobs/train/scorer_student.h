#pragma once
// A batch through a model that sees only what a scorer keeps: what KVpop's Algorithm 1 and the scorers trained through the model's
// output learn from.

#include <ATen/core/Tensor.h>

#include "engine/core/support/random.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/recipe.h"
#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {

/// Layers in which a policy decides: all but the local ones.
int n_global_layers(const ModelConfig& model);

/// Adds the gradients of eq. 7 at sampled contests, the same queries in all layers; returns the sum of the layers' losses. k, v
/// [B, T, HK, D], target [HK, B, T]. Only the tokens of those contests are scored.
at::Tensor teach_boundary(const ScorerModule& scorer, LayerRange layers, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& target, int top_k, const ScorerOptions& options, Random& random);
/// What running top-k sorts all T positions by, [HK, B, T].
at::Tensor all_priorities(const ScorerModule& scorer, LayerRange layers, const at::Tensor& k, const at::Tensor& v);

/// Mean cross-entropy of ids [B, T] but the first of each row, from final hidden states [B, T, H] and output [V, H].
at::Tensor next_token_loss(const at::Tensor& hidden, const at::Tensor& output, const at::Tensor& ids);

/// Last hidden states of ids [B, T] where each query sees what running top-k (pooled: one budget for all heads) keeps by the scorer's
/// priorities of the student's own keys and values. Without gradients.
at::Tensor hidden_under(const DecoderModule& student, const ScorerModule& scorer, const at::Tensor& ids,
                        const ScorerOptions& options, int top_k);

/// Of one batch, without gradients, still on the device.
struct StudentLosses {
  at::Tensor boundary;  // of the scorers, eq. 7, mean over layers
  at::Tensor output;    // KL of joint_lesson; undefined where the base is frozen
  at::Tensor next;      // its cross-entropy of the next token; undefined with kl_weight 1
  at::Tensor distance;  // of output_lesson; undefined before it begins
};

/// KVpop's Algorithm 1 for one batch of ids [B, T]: layer by layer the student scores its own keys and values, its attention sees what
/// running top-k keeps by them, and the scorers learn from the student's own future attention; adapter or weights learn from
///
///     w KL(dense base || student) + (1 - w) CE      of the next token, w = kl_weight
///
/// the KL over the base's top_teacher likeliest tokens (distillation.h), the CE of the T - 1 tokens that follow one.
/// Scorer inputs are detached, so that each loss reaches its own parameters only. Adds the gradients of both.
StudentLosses joint_lesson(const DecoderModule& base, const DecoderModule& student, const ScorerModule& scorer,
                           const at::Tensor& ids, const ScorerOptions& options, Random& random);

/// A student whose attention has a soft boundary (soft_top_k_attention): what is trained of it learns from
///
///     |h - h_dense|^2 / |h_dense|^2     of the last hidden states, as WG-KV's gates do
///
/// With `pooled` in the options all heads share one cutoff (pooled_cutoff.h), in both lessons. The student is the base itself where that is frozen, and then the scorers alone learn; with an adapter both do. Adds
/// output_weight times its gradients; returns the distance.
at::Tensor output_lesson(const DecoderModule& base, const DecoderModule& student, const ScorerModule& scorer,
                         const at::Tensor& ids, const ScorerOptions& options, Random& random);

}  // namespace kvscope::engine
