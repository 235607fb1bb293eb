#pragma once
// What each kind of gate is: one row a kind. The rest of the program asks for these properties, not for a kind by name.

#include <filesystem>
#include <optional>
#include <span>

#include "engine/core/files/gate/gate_file.h"

namespace kvscope {

/// What a gate reads of a token; GateKind has the equations.
enum class GateReads {
  key_value,        // [k ; v] of the KV head, k after RoPE
  key_pair,         // the KV head's k before and after RoPE, each normed
  attention_input,  // hidden states after the layer's input norm
  layer_input,      // hidden states before it, by a norm that the gate has itself
  query_channel,    // the last channel of the group's first query head, which then takes no part in attention
  key,              // the KV head's k after RoPE, without weights
  nothing           // the same number for every token: heads, not tokens, are chosen
};

/// A tensor of a kind; `shape` as in gate_file.h, "L H M 2D".
struct GateTensorSpec {
  const char* name;
  const char* shape;
};

struct GateKindInfo {
  enum class Hidden { none, always, optional };  // optional: unless n_hidden is 0

  GateKind kind;
  const char* name;  // "wg_kv", in files, messages and policies' lists; policy/scorer_text.h has the paper's name
  GateReads reads;
  Hidden hidden = Hidden::none;
  bool has_memory = false;  // a recurrence: the score depends on all earlier tokens
  /// A score means the same in every head, so that one threshold for all of them compares what can be compared: a utility, a
  /// trained mark, a predicted logarithm. KVpop's loss at the boundary (eq. 7) sees differences inside a head alone: each
  /// head's scores have a zero of their own.
  bool has_common_zero = true;
  std::span<const GateTensorSpec> tensors;         // with a hidden layer where that is optional
  std::span<const GateTensorSpec> linear = {};     // without it
  std::span<const GateTensorSpec> convolved = {};  // with a kernel above 1; empty: the kind has no convolution
  std::span<const GateTensorSpec> may_have = {};   // besides
  GateConfig defaults = {};                        // the numbers of the method as published
};

std::span<const GateKindInfo> gate_kinds();
const GateKindInfo& info_of(GateKind kind);
/// Of a kind whose score needs no file: its name stands where others have a path. A file of that name is "./knorm".
std::optional<GateKind> weightless_gate(const std::filesystem::path& name);

}  // namespace kvscope
