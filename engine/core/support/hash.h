#pragma once
// Hashes that tell things apart and mix bits. Neither withstands somebody who looks for two things of one hash.

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/support/text.h"

namespace kvscope {

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
class Fnv1a {
 public:
  /// By its definition a word is one byte; a larger word is taken in one step, which is another hash, and a faster one.
  constexpr void add_word(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3u; }
  constexpr void add(std::string_view bytes) {
    for (const char c : bytes) add_word(static_cast<unsigned char>(c));
  }
  constexpr std::uint64_t value() const { return value_; }
  std::string hex() const { return hex_text(value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

constexpr std::uint64_t fnv1a64(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.value();
}

/// One step of splitmix64 (Steele, Lea, Flood 2014): a well mixed 64-bit value from any 64-bit value.
constexpr std::uint64_t split_mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace kvscope
