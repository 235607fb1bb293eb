#pragma once
// From a gate's file to the scorer that computes it. Includes LibTorch.

#include <cstdint>
#include <memory>

#include "engine/core/files/gate/gate_file.h"
#include "engine/model/weights.h"
#include "engine/scorer/token_scorer.h"
#include "kernels/gate_score.h"

namespace kvscope::engine {

/// Throws Error (bad input) for a kind that gives tokens no scores (duo). `weights` must stay where it is.
std::unique_ptr<TokenScorer> make_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights);

/// Uniform in [0, 1) by a hash of seed, layer, head and position (kernels/rule/counter_random.h), known on arrival. `weights`
/// must stay where it is.
/// Scores given beforehand, [n_layers, n_kv_heads, positions] float32; NaN behind their end.
std::unique_ptr<TokenScorer> make_table_scorer(const at::Tensor& scores, const ModelConfig& config,
                                               const Weights& weights);
std::unique_ptr<TokenScorer> make_random_scorer(std::uint64_t seed, const ModelConfig& config, const Weights& weights);

/// Scores of another program, which `command` starts. Throws Error (resource) unless it starts and greets. `weights` must stay
/// where it is.
std::unique_ptr<TokenScorer> make_pipe_scorer(const std::string& command, const ModelConfig& config,
                                              const Weights& weights);

// One file each, and what they share.
std::unique_ptr<TokenScorer> make_head_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights);
std::unique_ptr<TokenScorer> make_key_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights);
std::unique_ptr<TokenScorer> make_input_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights);

/// What kernels::gate_score needs of the model and the token; source, weights and scale are the scorer's.
kernels::GateScoreArgs gate_score_args(const DecodeToken& token, const ModelConfig& model, const Weights& weights);

/// A tensor of the gate on the model's device, float32.
at::Tensor gate_tensor(const GateFile& gate, const char* name, const Weights& weights);

/// Of a hidden layer's outputs, as the gate has it.
at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace kvscope::engine
