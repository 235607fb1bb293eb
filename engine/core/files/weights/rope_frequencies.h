#pragma once
// How fast each pair of features turns with the position: rotary frequencies, and their stretching for contexts longer
// than the model was first trained on.

#include <cstdint>
#include <optional>
#include <vector>

namespace kvscope {

/// The kinds that transformers' rope_type names "default", "linear", "llama3", "yarn" and "longrope".
enum class RopeKind : std::uint8_t { plain, linear, llama3, yarn, longrope };

/// What config.json says of the stretching; fields that the kind does not use keep their defaults.
struct RopeScaling {
  RopeKind kind = RopeKind::plain;
  double factor = 1;                                 // how many times longer the context became
  double original_positions = 0;                     // tokens of the context before that (llama3, yarn, longrope)
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3: wavelengths original / factor bound the blend
  double beta_fast = 32, beta_slow = 1;              // yarn: turns within the original context that bound the blend
  bool truncate = true;                              // yarn: whether the blend begins and ends at whole features
  std::optional<double> attention_factor;            // yarn, longrope: of cosine and sine; else it follows
  double mscale = 0, mscale_all_dim = 0;             // yarn: 0 if not said
  std::vector<double> factors;                       // longrope: of each pair
  bool operator==(const RopeScaling&) const = default;
};

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [head_dim / 2], radians per position
  float attention_scaling = 1;  // cosine and sine are multiplied by it; 1 but for yarn and longrope
};

/// With f_i = theta^(-2i / head_dim), s = factor, L = original_positions:
///
///     plain    f_i                                              linear   f_i / s
///     llama3   f_i where 2 pi / f_i < L / high;   f_i / s where 2 pi / f_i > L / low;   between them
///              (1 - a) f_i / s + a f_i,   a = (L f_i / 2 pi - low) / (high - low)
///     yarn     (1 - b_i) f_i + b_i f_i / s,   b_i = clamp((i - lo) / (hi - lo), 0, 1) with
///              lo, hi = head_dim log(L / (2 pi beta)) / (2 log theta) at beta_fast and beta_slow
///     longrope f_i / factors_i
///
/// and for yarn attention_scaling = attention_factor, or 0.1 log(s) + 1, or the quotient of 0.1 m log(s) + 1 at mscale
/// and mscale_all_dim where both are said; for longrope attention_factor, or sqrt(1 + log(s) / log(L)). In float32 and in the order of operations of transformers
/// (modeling_rope_utils.py), so that both turn by the same angles at far positions. head_dim must be even.
RopeFrequencies rope_frequencies(double theta, int head_dim, const RopeScaling& scaling);

}  // namespace kvscope
