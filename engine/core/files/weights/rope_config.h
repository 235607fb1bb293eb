#pragma once
// The rotary part of config.json; private to weights/.

#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

/// Sets the layer's rope_theta and rope_scaling, in a model of max_positions. Both styles are read: `rope_parameters`
/// {rope_type, rope_theta, ...}, and `rope_theta` beside `rope_scaling` {rope_type or type, ...}, with the precedence
/// of transformers: a rope_scaling that is not empty goes first, and a theta inside the section before one beside it.
/// Throws Error for a kind that is not computed, by its name, and for numbers that make no frequencies; other keys of
/// the section get a line in `warnings`.
void read_rope(const JsonObject& config, int max_positions, LayerConfig& layer, std::vector<std::string>& warnings);

}  // namespace kvscope
