#pragma once
// The rotary part of config.json; private to weights/.

#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

/// Of which heads and texts.
struct RopeOf {
  int max_positions, head_dim;
  bool partial;  // whether part of a head's channels may turn (ModelFamily::partial_rotation)
  // "full_attention" or "sliding_attention" of a family with a rotation for each; null: one for all layers.
  const char* kind = nullptr;
};

/// Sets the layer's rope_theta, rope_scaling and rotated. Both styles are read: `rope_parameters`
/// {rope_type, rope_theta, ...}, and `rope_theta` beside `rope_scaling` {rope_type or type, ...}, with the precedence
/// of transformers: a rope_scaling that is not empty goes first, and a theta inside the section before one beside it.
/// For a `kind` of layer, rope_parameters holds a section of that name, and rope_scaling is of full attention alone; of
/// sliding attention the theta beside it is rope_local_base_freq.
/// Throws Error for a kind that is not computed, by its name, and for numbers that make no frequencies; other keys of
/// the section get a line in `warnings`.
void read_rope(const JsonObject& config, const RopeOf& of, LayerConfig& layer, std::vector<std::string>& warnings);

}  // namespace kvscope
