#pragma once
// Seeded random streams that give the same numbers on every machine (the standard library's distributions do not).

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "engine/core/support/hash.h"

namespace kvscope {

/// xoshiro256++ (Blackman, Vigna 2019). Random(seed, stream) with different streams are independent for our purposes:
/// sequence i of a data set is Random(seed, i), whichever thread makes it.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = split_mix(seed) ^ split_mix(stream ^ 0xd1b54a32d192ed03u);
    for (auto& word : state_) word = x = split_mix(x);
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, n), n > 0, without bias: values below 2^64 mod n are drawn again.
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t first_fair = (0 - n) % n;
    std::uint64_t x = next();
    while (x < first_fair) x = next();
    return x % n;
  }
  /// Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Standard normal by Box and Muller (the cosine half; no state is kept between calls).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_[4];
};

}  // namespace kvscope
