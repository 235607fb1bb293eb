#pragma once
// Numbers packed as MXFP4 (Open Compute Project, "Microscaling Formats (MX)", 2023): 4 bits each, and a scale for each 32.

#include <cstdint>

namespace kvscope {

/// A tensor NAME of numbers [..., columns] is two of bytes: NAME_blocks [..., columns / 32, 16] and NAME_scales [..., columns / 32].
inline constexpr const char *kPackedSuffix = "_blocks", *kScalesSuffix = "_scales";
inline constexpr int kPackedNumbers = 32, kPackedBytes = 16;  // of a block

/// The kPackedNumbers of a block. Byte i has number 2 i in its lower half and 2 i + 1 in its upper one: a sign, two bits of exponent,
/// one of fraction (0, 1/2, 1, 3/2, 2, 3, 4, 6). They are multiplied by 2^(scale - 127), without rounding. The standard calls
/// scale 255 no number; here it is 2^128, as in transformers.
void unpack_mxfp4(const std::uint8_t* block, std::uint8_t scale, float* out);

}  // namespace kvscope
