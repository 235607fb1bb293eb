#pragma once
// The rotary part of config.json; private to weights/.

#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

struct ModelConfig;

/// Sets rope_theta, rope_scaling and rotated of layers that attend to all tokens, and of those with a window, as the family of
/// `c` has them. Both styles are read: `rope_parameters` {rope_type, rope_theta, ...}, and `rope_theta` beside `rope_scaling`
/// {rope_type or type, ...}, with the precedence of transformers: a rope_scaling that is not empty goes first, and a theta
/// inside the section before one beside it.
///
/// Where both kinds of layer have a rotation, rope_parameters holds a section for each, and rope_scaling is of full attention
/// alone. Of Gemma's local layers the theta beside it is rope_local_base_freq. OLMo 3's are not scaled, unless a section of
/// theirs says so.
/// Throws Error for a kind that is not computed, by its name, and for numbers that make no frequencies; other keys of
/// the section get a line in `c.warnings`.
void read_rotations(const JsonObject& config, ModelConfig& c, LayerConfig& global, LayerConfig& local);

}  // namespace kvscope
