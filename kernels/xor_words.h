#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// out = data[0] ^ data[1] ^ ...: the least that can be done with memory that is really read. Benchmarks time it to
/// learn the rate at which this device reads; a copy would tell less, since it writes too.
struct XorWordsArgs {
  const std::uint32_t* data;  // [n], on CUDA a multiple of 16 bytes
  std::uint32_t* out;         // one number
  std::int64_t n;             // a multiple of kXorTileWords
};
inline constexpr int kXorTileWords = 8192;  // 32 KB: one block reads one tile, all of it requested at once

KVSCOPE_OPERATION(xor_words, XorWordsArgs);

}  // namespace kvscope::kernels
