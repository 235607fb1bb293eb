#pragma once
// How each method trains gates, and the base too where a recipe says so. One method is one file; gate_methods() has them all.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/files/gate/gate_file.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// How far a training is.
struct GateStep {
  double weight =
      0;  // of the stage: lambda (WG-KV), price of the mean utility (SP-KV; below 0: eq. 13), evicted share (DMS)
  double progress = 0;  // of the stage, in [0, 1]
  double hard = 0;      // alpha of SP-KV's eq. 7: share of the binary gate; a gate learns while it is 0
};

/// What a loss is computed from: all tensors are of one batch of B sequences of T tokens.
struct GateLossInputs {
  const DecoderModule& base;
  const at::Tensor& next;     // [B, T] int64: the token after each
  const at::Tensor& counted;  // [n] int64: of the B * T next tokens, those that a mean over them counts
  const at::Tensor& share;    // [n] float32: of each of these
  const at::Tensor& student;  // [B, T, H] final normed hidden states through the gates
  const at::Tensor& teacher;  // the same of the base without gates and adapter; without gradients
  const at::Tensor& gates;    // [global layers, B, n_kv_heads, T] as attention saw them
};

struct GateMethod {
  std::string_view name;         // in recipes and policies
  std::string_view source;       // the paper and equation of its loss
  std::optional<GateKind> kind;  // none: no gate is trained, the base alone is, behind gates() of an undefined output
  int hidden = 0;                // units of the hidden layer, where the recipe says none
  double bias = 0;               // of the output at the start
  bool prices_utility = false;   // stages have "price" or "density_regulariser", not "weight"
  bool reads_teacher = true;     // whether the loss wants GateLossInputs::teacher
  /// Output of the networks [B, n_kv_heads, T] -> gates in [0, 1] that attention goes by, 1: open.
  at::Tensor (*gates)(const at::Tensor& output, const GateConfig& config, const GateStep& step) = nullptr;
  /// -> {the loss, its part that keeps the model's output}, both scalars.
  std::pair<at::Tensor, at::Tensor> (*loss)(const GateLossInputs& inputs, const GateStep& step) = nullptr;
};

/// NLL of the next token, a scalar: the mean by inputs.share over inputs.counted.
at::Tensor mean_next_token_nll(const GateLossInputs& inputs);

std::span<const GateMethod> gate_methods();
/// Throws Error (bad input) that names `file`, the recipe, and the methods if there is none of that name.
const GateMethod& find_gate_method(std::string_view name, const std::string& file);
/// Throws Error (bad input) that names the key: what the section asks of a method that cannot have it.
void check_gate(const GateOptions& options, const std::string& file);

}  // namespace kvscope::engine
