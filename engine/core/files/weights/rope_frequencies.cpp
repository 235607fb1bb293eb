// Plain and linear: Su et al., "RoFormer" (2021), and position interpolation, Chen et al. (2023). llama3: the rule of
// Llama 3.1's release. yarn: Peng et al., "YaRN" (2023). Quotients of a number and a tensor are written as number times
// reciprocal, because LibTorch rounds them so.
#include "engine/core/files/weights/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvscope {
namespace {

/// theta^(2i / head_dim). The power is taken in double and rounded once: the nearest float32, whatever the library.
std::vector<float> powers(double theta, int head_dim) {
  const auto base = static_cast<double>(static_cast<float>(theta));
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    out[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return out;
}

void stretch_llama3(std::vector<float>& inv_freq, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor), original = static_cast<float>(scaling.original_positions);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto span = static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  const auto longest = static_cast<float>(scaling.original_positions / scaling.low_freq_factor);
  const auto shortest = static_cast<float>(scaling.original_positions / scaling.high_freq_factor);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) * (1.0f / f);
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      f = f / factor;
      continue;
    }
    const float smooth = (original * (1.0f / wavelength) - low) / span;
    f = (1.0f - smooth) * f / factor + smooth * f;
  }
}

/// The first and last feature pair of YaRN's blend, as transformers clamps them.
struct Ramp {
  double low, high;
};

Ramp yarn_ramp(double theta, int head_dim, const RopeScaling& scaling) {
  const auto turns = [&](double beta) {  // the pair that turns `beta` times within the original context
    return head_dim * std::log(scaling.original_positions / (beta * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = turns(scaling.beta_fast), high = turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  return {low, low == high ? high + 0.001 : high};
}

/// `power` are theta^(2i / head_dim); -> frequencies.
std::vector<float> stretch_yarn(const std::vector<float>& power, const Ramp& ramp, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor), low = static_cast<float>(ramp.low),
             span = static_cast<float>(ramp.high - ramp.low);
  std::vector<float> out(power.size());
  for (std::size_t i = 0; i < power.size(); ++i) {
    const float keep = 1.0f - std::clamp((static_cast<float>(i) - low) / span, 0.0f, 1.0f);
    const float interpolated = 1.0f / (factor * power[i]), kept = 1.0f / power[i];
    out[i] = interpolated * (1.0f - keep) + kept * keep;
  }
  return out;
}

double yarn_attention_factor(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  const auto at = [&](double m) { return scaling.factor <= 1 ? 1.0 : 0.1 * m * std::log(scaling.factor) + 1.0; };
  const bool both = scaling.mscale != 0 && scaling.mscale_all_dim != 0;
  return both ? at(scaling.mscale) / at(scaling.mscale_all_dim) : at(1);
}

double longrope_attention_factor(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  return scaling.factor <= 1 ? 1 : std::sqrt(1 + std::log(scaling.factor) / std::log(scaling.original_positions));
}

}  // namespace

RopeFrequencies rope_frequencies(double theta, int head_dim, const RopeScaling& scaling) {
  const std::vector<float> power = powers(theta, head_dim);
  RopeFrequencies out;
  if (scaling.kind == RopeKind::yarn) {
    out.inv_freq = stretch_yarn(power, yarn_ramp(theta, head_dim, scaling), scaling);
    out.attention_scaling = static_cast<float>(yarn_attention_factor(scaling));
    return out;
  }
  if (scaling.kind == RopeKind::longrope) {
    for (std::size_t i = 0; i < power.size(); ++i)
      out.inv_freq.push_back(1.0f / (static_cast<float>(scaling.factors[i]) * power[i]));
    out.attention_scaling = static_cast<float>(longrope_attention_factor(scaling));
    return out;
  }
  for (const float p : power) out.inv_freq.push_back(1.0f / p);
  if (scaling.kind == RopeKind::linear) {
    for (float& f : out.inv_freq) f /= static_cast<float>(scaling.factor);
  }
  if (scaling.kind == RopeKind::llama3) stretch_llama3(out.inv_freq, scaling);
  return out;
}

}  // namespace kvscope
