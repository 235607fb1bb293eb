#pragma once
// Random numbers without a state: token, head and layer say which one it is, so that any order, any chunk of a prefill
// and any device draw the same.

#include <cstdint>

#include "kernels/host_device.h"

namespace kvscope::kernels {

/// Uniform in [0, 1), a multiple of 2^-24: the finaliser of splitmix64 (Steele, Lea, Flood 2014) of
///
///     seed + 0x9e3779b97f4a7c15 * ((((layer << 20) + head) << 32) + position)        modulo 2^64
///
/// `head` is a KV head below 2^20, `layer` below 2^12, `position` not negative.
KVSCOPE_HOST_DEVICE inline float counter_uniform(std::uint64_t seed, int layer, int head, std::int32_t position) {
  const std::uint64_t stream = (static_cast<std::uint64_t>(layer) << 20) + static_cast<std::uint64_t>(head);
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u * ((stream << 32) + static_cast<std::uint64_t>(position));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(x >> 40) * 0x1p-24f;
}

}  // namespace kvscope::kernels
