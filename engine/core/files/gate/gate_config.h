#pragma once
// The numbers of a gate as JSON: one table for reading, writing and hashing.

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

/// Whether the kind has a hidden layer whatever its numbers; sp_kv has one unless n_hidden is 0.
bool has_hidden_layer(const GateConfig& config);

/// The kind under "kind" and its numbers; what is not there is the method's default. Throws Error for a number out of
/// range and for a key that is neither a number of gates nor in `others`: a misspelt one would be silently ignored.
GateConfig read_gate_config(const JsonObject& json, const std::set<std::string>& others);

/// Throws Error naming `file` for a kernel without hidden units; by then the file has said whether there are any.
void check_kernel(const GateConfig& config, const std::string& file);

/// Every number of `config`, the kind first; what older gates did not have is left out at its default.
nlohmann::ordered_json gate_config_json(const GateConfig& config);

}  // namespace kvscope
